"""The table of model families and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise_compiler.models.base import Family
from edgewise_compiler.models.elsewhere import missing, refusal
from edgewise_compiler.models.gemma import GEMMA, GEMMA2, GEMMA3
from edgewise_compiler.models.gpt_oss import GPT_OSS
from edgewise_compiler.models.granite import GRANITE
from edgewise_compiler.models.granite4 import GRANITE4
from edgewise_compiler.models.llama import LLAMA
from edgewise_compiler.models.ministral3 import MINISTRAL3
from edgewise_compiler.models.mistral import MISTRAL
from edgewise_compiler.models.olmo2 import OLMO2
from edgewise_compiler.models.olmo3 import OLMO3
from edgewise_compiler.models.olmoe import OLMOE
from edgewise_compiler.models.phi3 import PHI3
from edgewise_compiler.models.qwen2 import QWEN2, QWEN2_MOE
from edgewise_compiler.models.qwen3 import QWEN3
from edgewise_compiler.models.qwen3_moe import QWEN3_MOE
from edgewise_compiler.models.smollm3 import SMOLLM3
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

FAMILIES: tuple[Family, ...] = (
    LLAMA,
    GEMMA,
    GEMMA2,
    GEMMA3,
    GPT_OSS,
    GRANITE,
    GRANITE4,
    MINISTRAL3,
    MISTRAL,
    OLMO2,
    OLMO3,
    OLMOE,
    PHI3,
    QWEN2,
    QWEN2_MOE,
    QWEN3,
    QWEN3_MOE,
    SMOLLM3,
)


def find_family(hf: Mapping[str, Any]) -> Family:
    """The family of a parsed config.json, by ``architectures`` or, without it, ``model_type``.

    Raises:
        CheckpointError: neither key names anything.
        UnsupportedError: a name that no family claims.
    """
    listed = hf.get("architectures")
    if isinstance(listed, list) and listed and isinstance(listed[0], str):
        name, by_name = listed[0], {a: f for f in FAMILIES for a in f.architectures}
    elif isinstance(hf.get("model_type"), str):
        name, by_name = hf["model_type"], {m: f for f in FAMILIES for m in f.model_types}
    else:
        raise CheckpointError(
            "config.json names neither 'architectures' nor 'model_type'.",
            remedy="Use a complete checkpoint folder as Hugging Face transformers saves it.",
            code="checkpoint.config",
        )
    whole = name.removesuffix("Model") + "ForCausalLM"
    if name not in by_name and name.endswith("Model") and whole in by_name:
        name = whole  # saved without its head
    if name not in by_name:
        what = f"Models of architecture {shorten(name)}"
        raise refusal(what, missing(name, hf), (a for f in FAMILIES for a in f.architectures))
    return by_name[name]
