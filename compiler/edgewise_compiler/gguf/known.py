"""Which models in GGUF files are known: the architectures that are read, and why others are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.models.elsewhere import EVERY_TRAIT, beyond, refusal
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import PAGE, said
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten


@dataclass(frozen=True)
class Architecture:
    """How files of one ``general.architecture`` are read.

    Attributes:
        model: value of ``architectures`` in config.json.
        pairs: rotated pairs of queries and keys lie beside each other, not half a head apart.
    """

    model: str
    pairs: bool = False


ARCHITECTURES = {
    "llama": Architecture("LlamaForCausalLM", pairs=True),
    "qwen2": Architecture("Qwen2ForCausalLM"),
    "qwen3": Architecture("Qwen3ForCausalLM"),
}

NEUTRAL: dict[str, tuple[float, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.scale": (0,),
    "attn_logit_softcapping": (0,),
    "embedding_scale": (0, 1),
    "final_logit_softcapping": (0,),
    "logit_scale": (0, 1),
    "residual_scale": (0, 1),
    "rope.scale_linear": (0, 1),
    "rope.scaling.attn_factor": (0, 1),
    "rope.scaling.yarn_attn_factor": (0, 1),
    "rope.scaling.yarn_ext_factor": (-1, 1),
    "rope.scaling.yarn_log_multiplier": (0,),
    "use_parallel_residual": (False,),
}
"""Keys that change what a model computes, and the values that leave it as it is."""

BESIDE = {
    "adapter": "an adapter (LoRA), which holds only what differs from another model",
    "imatrix": "an importance matrix, which tells a quantizer what matters",
    "mmproj": "the part of a model that reads images or sound",
}
"""What else there is in GGUF files, by ``general.type``."""


def find_architecture(reader: GgufReader) -> tuple[str, Architecture]:
    """The architecture that a file names.

    Raises:
        CheckpointError: it names none.
        UnsupportedError: it is not implemented, or the file holds something else than a model.
    """
    fields = ConfigFields(reader.metadata, reader.path.name)
    of_images = fields.text("general.architecture", "") == "clip"
    kind = "mmproj" if of_images else fields.text("general.type", "model")
    if kind in BESIDE:
        raise UnsupportedError(
            f"{reader.path.name} is {BESIDE[kind]} (general.type {shorten(kind)}).",
            remedy="Name the model's own GGUF file.",
            code="unsupported.gguf",
        )
    name = fields.text("general.architecture")
    if name not in ARCHITECTURES:
        what = f"GGUF files of architecture {shorten(name)}"
        raise refusal(what, beyond(name, _asked_for(name, fields)), ARCHITECTURES)
    return name, ARCHITECTURES[name]


def _asked_for(name: str, fields: ConfigFields) -> Iterator[str]:
    """The traits that the metadata of another architecture speaks of."""
    for trait in EVERY_TRAIT:
        for key in trait.gguf:
            value = fields.values.get(f"{name}.{key}", 0)
            if isinstance(value, int | float) and value not in NEUTRAL.get(key, (0,)):
                yield f"{trait.name} ({said(key, value)})"
                break


def check_options(reader: GgufReader, architecture: str) -> None:
    """Raise UnsupportedError for an option that changes what a model computes."""
    for key, allowed in NEUTRAL.items():
        found = reader.metadata.get(f"{architecture}.{key}", allowed[0])
        if not isinstance(found, int | float) or found not in allowed:
            raise UnsupportedError(
                f"{architecture}.{key} is {shorten(found)} in {reader.path.name}: not implemented.",
                remedy=f"Use a model without it; see {PAGE}.",
                code="unsupported.option",
            )
