"""What a checkpoint says of the vectors of texts: the files that sentence-transformers reads.

modules.json lists what is done one after the other: the model, pooling, making the length 1.
`Qwen3-Reranker` and what is made of it have no head of their own; "yes" and "no" after a fixed
text are the scores, which is told by the folder's name or by these files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.files import Floats, check_fetched, checkpoint_json
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.reading import shorten

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
POOLING = "config.json"
"""In the folder of a module."""
MAX_BYTES = 4 << 20
RANKING = ("qwen3",)
"""Families whose heads give a logit as the product of a row and a state, and nothing else."""
_MODES = {
    "pooling_mode_lasttoken": "last",
    "pooling_mode_mean_tokens": "mean",
    "lasttoken": "last",
    "mean": "mean",
}


@dataclass(frozen=True)
class Said:
    """What a folder says of vectors.

    Attributes:
        settings: of `SETTINGS`, empty where there are none.
        modules: of `MODULES`; None where there is no such file.
    """

    folder: Path
    settings: Mapping[str, Any]
    modules: Sequence[Mapping[str, Any]] | None

    @property
    def kinds(self) -> list[str]:
        """What each module is."""
        return [str(one.get("type")).rpartition(".")[2] for one in self.modules or ()]


def read_said(folder: Path) -> Said:
    """Read both files. Raises CheckpointError for one that is malformed."""
    settings, modules = _read(folder, SETTINGS), _read(folder, MODULES)
    if modules is not None and not (
        isinstance(modules, list) and all(isinstance(one, dict) for one in modules)
    ):
        raise _malformed(MODULES, modules)
    return Said(folder, settings if isinstance(settings, dict) else {}, modules)


def vector_rules(said: Said) -> dict[str, Any]:
    """``pooling``, ``normalize`` and ``prompts`` of a folder; empty where it says nothing.

    Raises:
        CheckpointError: a file that is malformed.
        UnsupportedError: ``unsupported.pooling`` for another pooling, or a step that is not done.
    """
    found: dict[str, Any] = {}
    prompts, kinds = said.settings.get("prompts"), said.kinds
    if isinstance(prompts, dict):
        found["prompts"] = {name: text for name, text in prompts.items() if isinstance(text, str)}
    if said.modules is None or "LogitScore" in kinds:
        return found
    for module, kind in zip(said.modules, kinds, strict=True):
        if kind == "Pooling":
            found["pooling"] = _pooling(said.folder, module.get("path"))
        elif kind not in ("Transformer", "Normalize"):
            raise _refused(f"a step {shorten(kind)} behind the model")
    return found | {"normalize": "Normalize" in kinds}


def pooling_files(modules: bytes) -> list[str]:
    """The files that `MODULES` lets `vector_rules` read besides. Of one that is malformed none:
    what is wrong with it is said when it is read."""
    listed: Any = []
    with suppress(CheckpointError):
        listed = checkpoint_json(modules, Path(MODULES))
    listed = listed if isinstance(listed, list) else []
    said = Said(Path(), {}, [one for one in listed if isinstance(one, dict)])
    paths = [
        module.get("path")
        for module, kind in zip(said.modules or (), said.kinds, strict=True)
        if kind == "Pooling" and "LogitScore" not in said.kinds
    ]
    return [f"{path}/{POOLING}" for path in paths if _is_folder(path)]


def ranks(said: Said, model: ModelConfig) -> bool:
    """Whether a checkpoint is one that ranks texts by "yes" and "no"."""
    if model.family not in RANKING:
        return False
    crosses = said.settings.get("model_type") == "CrossEncoder"
    scores = any("LogitScore" in kind for kind in said.kinds)
    return crosses or scores or named_for_ranking(said.folder)


def named_for_ranking(path: Path) -> bool:
    """Whether a checkpoint's name says it: of a folder in a hub's cache, the repository's name."""
    above = path.parent
    name = above.parent.name if above.name == "snapshots" else path.name
    return "rerank" in name.lower()


def yes_less_no(weights: WeightReader, backend: Tokenizer, model: ModelConfig) -> str:
    """The head's row of "yes" less that of "no", float32 in base64.

    Raises:
        CheckpointError: ``checkpoint.tokenizer`` where one of them is no token.
    """
    head = "model.embed_tokens.weight" if model.tied else "lm_head.weight"
    rows = []
    for word in ("yes", "no"):
        token = backend.token_to_id(word)
        if token is None:
            raise CheckpointError(
                f"The tokenizer of a model that ranks texts has no token {word!r}.",
                remedy="Give it a name without 'rerank' if it is another kind of model.",
                code="checkpoint.tokenizer",
            )
        rows.append(weights.read(head, token, token + 1)[0])
    return as_text(rows[0] - rows[1])


def as_text(direction: Floats) -> str:
    """Numbers as `vectors.json` has them, float32 in base64."""
    return base64.b64encode(direction.astype("<f4").tobytes()).decode()


def as_file(rules: Mapping[str, Any]) -> bytes:
    """What the bundle gets."""
    return json.dumps(rules, ensure_ascii=False, indent=1, allow_nan=False).encode()


def _pooling(folder: Path, path: Any) -> str:
    name = f"{path}/{POOLING}"
    if not _is_folder(path):
        raise _malformed(MODULES, path)
    config = _read(folder, name)
    if not isinstance(config, dict):
        raise _malformed(name, config)
    chosen = [key for key, value in config.items() if value is True and "pooling_mode_" in key]
    if isinstance(config.get("pooling_mode"), str):
        chosen = [config["pooling_mode"]]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        raise _refused(f"the pooling {shorten(', '.join(chosen) or config)}")
    pooling = _MODES[chosen[0]]
    if pooling == "mean" and config.get("include_prompt") is False:
        raise _refused("a mean that leaves out the prompt")
    return pooling


def _is_folder(path: Any) -> bool:
    """Whether a module's path is the name of a folder beside the file that lists it."""
    return (
        isinstance(path, str)
        and path not in ("", ".", "..")
        and not any(c in path for c in "/\\:\0")
    )


def _read(folder: Path, name: str) -> Any:
    path = folder / name
    if not path.is_file():
        return None
    with storage_errors("read", path):
        check_fetched(path)
        if path.stat().st_size > MAX_BYTES:
            raise _malformed(name, f"{path.stat().st_size} bytes")
        return checkpoint_json(path.read_bytes(), Path(name))


def _malformed(name: str, value: object) -> CheckpointError:
    return CheckpointError(
        f"{name} holds {shorten(value)}.",
        remedy="Download the checkpoint again.",
        code="checkpoint.file",
    )


def _refused(what: str) -> UnsupportedError:
    return refused(what, f" To use the model without its vectors' own rules, remove {MODULES}.")


def refused(what: str, more: str = "") -> UnsupportedError:
    """The error for vectors that would be others, and look like those of the model."""
    return UnsupportedError(
        f"Vectors of this model want {what}.",
        remedy=f"Pooling of the last token and the mean are done.{more}",
        code="unsupported.pooling",
    )
