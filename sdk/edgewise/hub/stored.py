"""Which models of a hub lie on this disk, in the cache that other programs use as well."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from edgewise.hub.choice import Choice, choose, config_of, gguf_models
from edgewise.hub.names import REPO, HubModel
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.files import read_bytes

_REF_BYTES = 100


@dataclass(frozen=True)
class StoredModel:
    """A model of a hub that is here whole.

    Attributes:
        name: what to type for it; as a string, ``hf:ORG/REPO`` and perhaps ``:QUANT``.
        path: the checkpoint folder or the GGUF file.
        size: bytes of all that a compile reads.
    """

    name: HubModel
    path: Path
    size: int


def home(repo: str) -> Path:
    """Where the cache keeps a repository."""
    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def lock(repo: str, digest: str) -> Path:
    """What is held while a file is written into the cache, by its other users, too."""
    return Path(constants.HF_HUB_CACHE) / ".locks" / home(repo).name / f"{digest}.lock"


def snapshot(repo: str) -> Path | None:
    """The files of a repository as they were when the hub was last asked; None without any."""
    with suppress(EdgewiseError, UnicodeDecodeError):
        commit = read_bytes(home(repo) / "refs" / "main", _REF_BYTES).decode("ascii").strip()
        folder = home(repo) / "snapshots" / commit
        if commit.isalnum() and folder.is_dir():
            return folder
    return None


def files_of(folder: Path) -> list[str]:
    """The files of a snapshot, by their paths in the repository."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def missing(folder: Path, choice: Choice) -> bool:
    """Whether a snapshot lacks anything of what a compile would read."""
    return any(not (folder / name).is_file() for name in _needed(folder, choice))


def _needed(folder: Path, choice: Choice) -> Iterator[str]:
    from edgewise_compiler.vectors import MAX_BYTES, pooling_files
    from edgewise_compiler.weights.safetensors import read_index

    yield from (*choice.small, *choice.weights)
    if choice.modules and (folder / choice.modules).is_file():
        yield from pooling_files(read_bytes(folder / choice.modules, MAX_BYTES))
    if choice.index and (folder / choice.index).is_file():
        yield from read_index(folder / choice.index)


def whole(model: HubModel, names: Collection[str] | None = None) -> Path | None:
    """Where a model lies if all of it is here, else None.

    `names` are the files of its repository, where they are known: what is here counts otherwise,
    which cannot tell that a chat template, say, is missing.

    Raises what `choose` does.
    """
    folder = snapshot(model.repo)
    if folder is None:
        return None
    choice = choose(model, files_of(folder) if names is None else names)
    return None if missing(folder, choice) else folder / choice.entry


def stored() -> list[StoredModel]:
    """The models in the cache that edgewise can compile, by name."""
    found = []
    for folder in sorted(Path(constants.HF_HUB_CACHE).glob("models--*--*")):
        repo = folder.name.removeprefix("models--").replace("--", "/")
        here = snapshot(repo) if REPO.fullmatch(repo) else None
        if here is not None:
            found += [model for name in _names(repo, here) if (model := _stored(name, here))]
    return found


def _names(repo: str, folder: Path) -> list[HubModel]:
    """What may be in a snapshot: the folder itself, and each GGUF file."""
    return [HubModel(repo), *(HubModel(repo, name) for name in gguf_models(files_of(folder)))]


def _stored(model: HubModel, folder: Path) -> StoredModel | None:
    """The model if it is whole, and of a kind that edgewise knows."""
    from edgewise_compiler.checkpoint import MAX_BYTES, check_config

    with suppress(EdgewiseError, OSError):
        choice = choose(model, files_of(folder))
        if missing(folder, choice) or bool(choice.entry) != bool(model.wanted):
            return None
        if not choice.entry:
            name = config_of(choice.small)
            check_config(read_bytes(folder / name, MAX_BYTES[name]), name)
        size = sum((folder / name).stat().st_size for name in _needed(folder, choice))
        return StoredModel(model, folder / choice.entry, size)
    return None
