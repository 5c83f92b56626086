"""Which files of a repository a compile reads: those of a folder, or one GGUF model."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from edgewise.hub.names import HubModel
from edgewise_runtime.errors import CheckpointError, HubError
from edgewise_runtime.format.reading import shorten

USUAL = "Q4_K_M"
"""The quantization that is taken where several are there and none is named."""
SUFFIX = ".gguf"
MOST_NAMED = 12
"""Names that an error lists."""

_BESIDE = re.compile(r"mmproj|imatrix", re.IGNORECASE)
"""GGUF files that are no language model: of a projector of images, of statistics."""
_QUANT = re.compile(
    r"(?:^|[-./])((?:UD-)?(?:[IT]?Q\d\w*|BF16|F16|F32|(?:MX|NV)FP4\w*))$", re.IGNORECASE
)


@dataclass(frozen=True)
class Choice:
    """Files of a repository, by their paths in it.

    Attributes:
        small: those that are read whole, such as config.json.
        weights: those that hold weights, but for shards that an index names.
        index: the one of `small` that names shards; empty where there are none.
        entry: the file that stands for the model; empty where the folder does.
        modules: the one of `small` that names files about vectors; empty where there are none.
    """

    small: tuple[str, ...]
    weights: tuple[str, ...]
    index: str = ""
    entry: str = ""
    modules: str = ""


def choose(model: HubModel, names: Collection[str]) -> Choice:
    """Which of a repository's files are the model that was asked for.

    Raises:
        CheckpointError: a folder in Hugging Face layout in which something is missing.
        HubError: ``hub.file`` where there is no such file, or several that may be meant;
            ``hub.format`` where there is nothing that a compile reads.
    """
    from edgewise_compiler.checkpoint import MAX_BYTES, NEEDED
    from edgewise_compiler.mlc.names import CONFIG
    from edgewise_compiler.vectors import MODULES, SETTINGS
    from edgewise_compiler.weights.safetensors import INDEX, SINGLE

    weights = next((name for name in (SINGLE, INDEX) if name in names), None)
    if not model.wanted and weights is None and CONFIG in names and "config.json" not in names:
        return _mlc(model, names)
    if model.wanted or weights is None:
        return _gguf(model, names)
    for name, (code, remedy) in NEEDED.items():
        if name not in names:
            raise CheckpointError(f"{model.repo} has no {name}.", remedy=remedy, code=code)
    small = tuple(name for name in (*MAX_BYTES, SETTINGS, MODULES) if name in names)
    modules = MODULES if MODULES in names else ""
    if weights == INDEX:
        return Choice((*small, INDEX), (), INDEX, modules=modules)
    return Choice(small, (SINGLE,), modules=modules)


def config_of(names: Collection[str]) -> str:
    """The file among those of a folder that describes its model."""
    from edgewise_compiler.mlc.names import CONFIG

    return "config.json" if "config.json" in names else CONFIG


def _mlc(model: HubModel, names: Collection[str]) -> Choice:
    """A folder of MLC LLM: its list of tensors says which shards there are, once it is here."""
    from edgewise_compiler.checkpoint import MAX_BYTES, NEEDED
    from edgewise_compiler.mlc.names import CACHES, SHARDS

    tokenizer = "tokenizer.json"
    if tokenizer not in names:
        code, remedy = NEEDED[tokenizer]
        raise CheckpointError(f"{model.repo} has no {tokenizer}.", remedy=remedy, code=code)
    lists = [name for name in CACHES if name in names][:1]
    shards = sorted(name for name in names if fnmatchcase(name, SHARDS))
    if not lists or not shards:
        raise CheckpointError(
            f"{model.repo} has no {SHARDS if lists else CACHES[0]}.",
            remedy=_LOOK,
            code="checkpoint.weights",
        )
    small = (name for name in MAX_BYTES if name in names)
    return Choice((*small, *lists), tuple(shards))


def gguf_models(names: Collection[str]) -> dict[str, str]:
    """The GGUF models among files: what to type behind ``hf:ORG/REPO:``, and its first file.

    That is the quantization where no other has the same, and else the file.
    """
    firsts = list(_by_stem(names).values())
    quants = [quant_of(name) for name in firsts]
    return {
        quant if quant and quants.count(quant) == 1 else name: name
        for name, quant in zip(firsts, quants, strict=True)
    }


def quant_of(name: str) -> str:
    """The quantization that a file's name ends with, such as ``Q4_K_M``; empty where none."""
    found = _QUANT.search(_stem(name))
    return found[1] if found else ""


def _stem(name: str) -> str:
    """A file's path without its suffix and the number of its part."""
    from edgewise_compiler.gguf.names import model_name

    path = Path(name)
    return str(path.parent / model_name(path))


def _by_stem(names: Collection[str]) -> dict[str, str]:
    """The first file of each GGUF model."""
    found: dict[str, str] = {}
    for name in sorted(names):
        if name.endswith(SUFFIX) and not _BESIDE.search(Path(name).name):
            found.setdefault(_stem(name), name)
    return found


def _gguf(model: HubModel, names: Collection[str]) -> Choice:
    from edgewise_compiler.gguf.names import parts

    found = _by_stem(names)
    if not found:
        raise _no_model(model, names)
    stem = _picked(model, found)
    files = tuple(str(part) for part in parts(Path(found[stem])))
    for file in files:
        if file not in names:
            raise HubError(
                f"{model.repo} lacks a part of {found[stem]}: {file}.",
                remedy="Choose another file of it, or another repository.",
                code="hub.file",
            )
    return Choice((), files, entry=files[0])


def _picked(model: HubModel, found: Mapping[str, str]) -> str:
    """Which of the models is meant, by its stem; `found` has their files."""
    if not model.wanted:
        stems = list(found) if len(found) == 1 else _of_quant(USUAL, found)
    elif model.wanted.endswith(SUFFIX):
        wanted = _stem(model.wanted)
        stems = [stem for stem in found if wanted in (stem, Path(stem).name)]
    else:
        stems = _of_quant(model.wanted, found)
    if len(stems) == 1:
        return stems[0]
    typed = gguf_models([found[stem] for stem in stems] if stems else list(found.values()))
    some = [*list(typed)[:MOST_NAMED], *(["…"] if len(typed) > MOST_NAMED else [])]
    raise HubError(
        _what_is_wrong(model, len(stems)),
        remedy=f"Name one behind a colon, such as {HubModel(model.repo, next(iter(typed)))}. "
        f"There are: {', '.join(some)}.",
        code="hub.file",
    )


def _what_is_wrong(model: HubModel, matches: int) -> str:
    if not model.wanted:
        return f"{model.repo} has several GGUF files, and not one {USUAL} among them."
    if matches:
        return f"{model.repo} has {matches} GGUF files that {shorten(model.wanted)} may mean."
    return f"{model.repo} has no GGUF file {shorten(model.wanted)}."


def _of_quant(quant: str, found: Mapping[str, str]) -> list[str]:
    """The models of a quantization; those whose name ends with it where there are such."""
    token = re.compile(rf"(?<![A-Z0-9_]){re.escape(quant)}(?![A-Z0-9_])", re.IGNORECASE)
    stems = [stem for stem in found if token.search(stem)]
    return [stem for stem in stems if stem.lower().endswith(quant.lower())] or stems


_LOOK = "Look for a repository of the same model that has them."


def _no_model(model: HubModel, names: Collection[str]) -> HubError:
    from edgewise_compiler.foreign import foreign_repository

    plain = sorted(name for name in names if "/" not in name and not name.startswith("."))
    some = ", ".join(plain[:MOST_NAMED]) or "nothing"
    if model.wanted:
        return HubError(
            f"{model.repo} has no GGUF file {shorten(model.wanted)}: it has no GGUF files.",
            remedy=f"Leave {shorten(':' + model.wanted)} out.",
            code="hub.file",
        )
    told = foreign_repository(model.repo, names)
    what, remedy = ("", _LOOK) if told is None else (f": this is {told[0]}", told[1])
    return HubError(
        f"{model.repo} has no weights that edgewise reads: neither model.safetensors, nor shards "
        f"with an index, nor GGUF files, nor a folder of MLC LLM. It has {some}{what}.",
        remedy=remedy,
        code="hub.format",
    )
