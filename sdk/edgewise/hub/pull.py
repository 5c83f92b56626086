"""Brings a model from a hub into the cache of this disk, or finds it there."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import get_cached_repo_tree, snapshot_download
from huggingface_hub.errors import CachedRepoTreeNotFoundError
from huggingface_hub.utils import disable_progress_bars

from edgewise.hub.choice import choose, config_of
from edgewise.hub.download import download, partial_size
from edgewise.hub.failures import NOT_ASKED, hub_answers, hub_errors
from edgewise.hub.listing import LIBRARY, HubFile, Listing, list_files
from edgewise.hub.names import DOWNLOADING, HubModel
from edgewise.hub.stored import home, lock, missing, whole
from edgewise_runtime.errors import (
    CheckpointError,
    EdgewiseError,
    HubError,
    StorageError,
    memory_errors,
)
from edgewise_runtime.files import read_bytes, write_bytes
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.installed import VERSION

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Pulled:
    """A model that was asked for at the hub, and is here.

    Attributes:
        path: the checkpoint folder or the GGUF file.
        repo: what its repository is called now.
        files: how many files it has.
        size: their bytes.
        fetched: bytes that were not here before.
    """

    path: Path
    repo: str
    files: int
    size: int
    fetched: int


def find(
    model: HubModel,
    progress: Progress | None = None,
    *,
    before: Callable[[], None] = lambda: None,
) -> Path:
    """The model as it lies on this disk; what is not there whole is fetched.

    The hub is asked only then: `pull` asks for what is newer. Where it cannot be asked, what
    another program left in the cache will do. Raises what `pull` does, and `before`, which is
    called before anything is fetched.
    """
    known = None if model.wanted else _known_files(model.repo)
    if (model.wanted or known) and (here := _here(model, known)):
        return here
    before()
    try:
        return pull(model, progress).path
    except HubError as error:
        if error.code in NOT_ASKED and (here := _here(model)):
            return here
        raise


def _known_files(repo: str) -> list[str] | None:
    """The files of a repository, as the hub listed them for what is in the cache."""
    with suppress(CachedRepoTreeNotFoundError, OSError, ValueError):
        return [file.path for file in get_cached_repo_tree(repo)]
    return None


def _here(model: HubModel, names: Collection[str] | None = None) -> Path | None:
    """`stored.whole`; None also for what it refuses, of which the hub may have another version."""
    with suppress(EdgewiseError):
        return whole(model, names)
    return None


def pull(model: HubModel, progress: Progress | None = None) -> Pulled:
    """Fetch a model as it is at the hub now; what is here already, whole or in part, is kept.

    `progress` hears of bytes in the phase `DOWNLOADING`, if there are any to fetch.

    Raises:
        HubError: the hub does not hand it out; see `hub_errors`, `choose` and `download`.
        CheckpointError, UnsupportedError: nothing that a compile takes, as far as config.json tells
            before the weights are fetched.
        StorageError: ``storage.full`` where it has no room, before any is fetched.
    """
    with memory_errors("fetching the model"), hub_errors(model):
        listing = list_files(model)
        fetch = _Fetch(model, listing, progress)
        choice = choose(model, listing.files)
        small = [fetch.file(name) for name in choice.small]
        weights = [fetch.file(name) for name in choice.weights]
        if choice.index:
            weights += fetch.shards(choice.index)
        if choice.modules:
            small += fetch.pooling(choice.modules)
        fetch.begin([*small, *weights])
        fetch.files(small)
        if small:
            fetch.check_config(choice.small)
        fetch.files(weights)
        names = [file.name for file in (*small, *weights)]
        fetch.link([*small, *weights])
        folder = _named(model, listing, names)
        if folder is None or missing(folder, choice):
            raise HubError(
                f"{model.repo} changed while it was fetched.",
                remedy="Try again.",
                code="hub.changed",
            )
        # Only now: until here, the files that were the model's before still are.
        _make_present(model, listing.commit)
    size = sum(file.size for file in (*small, *weights))
    return Pulled(folder / choice.entry, listing.repo, len(names), size, fetch.total)


class _Fetch:
    """Fetches files of one repository into the cache, and tells how far it is."""

    def __init__(self, model: HubModel, listing: Listing, progress: Progress | None) -> None:
        self.total = 0
        self._done = 0
        self._repo = model.repo
        self._listing = listing
        self._progress = progress or (lambda phase, done, total: None)

    def file(self, name: str) -> HubFile:
        """A file of the repository; CheckpointError for one that is too large to be read whole."""
        from edgewise_compiler.checkpoint import MAX_BYTES
        from edgewise_compiler.mlc.names import CACHES
        from edgewise_compiler.vectors import MAX_BYTES as MAX_OF_VECTORS
        from edgewise_compiler.vectors import MODULES, SETTINGS
        from edgewise_compiler.weights.safetensors import INDEX, MAX_INDEX

        file = self._listing.files[name]
        lists = dict.fromkeys((INDEX, *CACHES), MAX_INDEX)
        lists |= dict.fromkeys((MODULES, SETTINGS), MAX_OF_VECTORS)
        limit = (MAX_BYTES | lists).get(name, file.size)
        if file.size > limit:
            raise self._refused(name, f"has {file.size} bytes; at most {limit} are read")
        return file

    def shards(self, index: str) -> list[HubFile]:
        """The files that an index lists; it is fetched for that."""
        from edgewise_compiler.weights.safetensors import read_index

        return self._listed(index, list(read_index(self._fetched(index))))

    def pooling(self, modules: str) -> list[HubFile]:
        """What says how vectors are pooled, by the list of a model's modules, which is fetched.

        Raises CheckpointError for a file that is not there, or too large to be read whole.
        """
        from edgewise_compiler.vectors import MAX_BYTES, pooling_files

        names = pooling_files(read_bytes(self._fetched(modules), MAX_BYTES))
        files = self._listed(modules, names)
        for file in files:
            if file.size > MAX_BYTES:
                raise self._refused(
                    file.name, f"has {file.size} bytes; at most {MAX_BYTES} are read"
                )
        return files

    def _fetched(self, name: str) -> Path:
        """Where a file lies that names others, once it is here."""
        file = self.file(name)
        if not self._here(file):
            self._get(file)
        return self._blob(file)

    def _listed(self, where: str, names: Sequence[str]) -> list[HubFile]:
        absent = [name for name in names if name not in self._listing.files]
        if absent:
            raise self._refused(
                where, f"lists {shorten(absent[0])}, which is not in the repository"
            )
        return [self._listing.files[name] for name in names]

    def _refused(self, name: str, why: str) -> CheckpointError:
        return CheckpointError(
            f"{name} of {self._repo} {why}.",
            remedy="Look for another repository of the model.",
            code="checkpoint.file",
        )

    def begin(self, files: Sequence[HubFile]) -> None:
        """Count what is to be fetched; StorageError ``storage.full`` where it has no room."""
        absent = [file for file in files if not self._here(file)]
        self.total = sum(file.size for file in absent)
        self._done = sum(min(file.size, partial_size(self._blob(file))) for file in absent)
        _check_room(home(self._repo), self.total - self._done)
        if self.total:
            self._progress(DOWNLOADING, self._done, self.total)

    def files(self, files: Sequence[HubFile]) -> None:
        """Fetch those that are not here."""
        for file in files:
            if not self._here(file):
                self._get(file)

    def link(self, files: Sequence[HubFile]) -> None:
        """Give files their names in the snapshot, as the hub's library does where there are links:
        it asks nobody for the headers of what it finds there, and trusts no hub's."""
        folder = home(self._repo) / "snapshots" / self._listing.commit
        for file in files:
            link, blob = folder / file.name, self._blob(file)
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError, NotImplementedError):
                link.symlink_to(os.path.relpath(blob, link.parent))

    def check_config(self, names: Collection[str]) -> None:
        """Raise what a compile would for the model that a folder's configuration describes."""
        from edgewise_compiler.checkpoint import check_config

        name = config_of(names)
        check_config(self._blob(self._listing.files[name]).read_bytes(), name)

    def _get(self, file: HubFile) -> None:
        blob, held = self._blob(file), lock(self._repo, file.digest)
        with hub_answers():  # it may send us to an address that is none
            download(file, self._repo, self._listing.commit, blob, held, self._tell)

    def _tell(self, count: int) -> None:
        if self.total:
            self._done = min(self._done + count, self.total)
            self._progress(DOWNLOADING, self._done, self.total)

    def _blob(self, file: HubFile) -> Path:
        return home(self._repo) / "blobs" / file.digest

    def _here(self, file: HubFile) -> bool:
        return self._blob(file).is_file()


def _check_room(folder: Path, count: int) -> None:
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    if count > free:
        raise StorageError(
            f"{count} bytes more are needed in {folder}; the disk has {free} left.",
            remedy="Free some space on that disk, or set HF_HUB_CACHE to a folder on another.",
            code="storage.full",
        )


def _named(model: HubModel, listing: Listing, names: Sequence[str]) -> Path | None:
    """Have the hub's library give the files that were fetched their names; returns their folder.

    None where the hub has others by now.
    """
    if list_files(model).commit != listing.commit:
        return None
    with disable_progress_bars(), hub_answers():
        folder = snapshot_download(
            model.repo,
            revision=listing.commit,
            allow_patterns=[glob.escape(name) for name in names],
            library_name=LIBRARY,
            library_version=VERSION,
        )
    return Path(folder)


def _make_present(model: HubModel, commit: str) -> None:
    """Note that the files of a commit are the model's, where the hub's library does, too."""
    note = home(model.repo) / "refs" / "main"
    note.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(note, commit.encode())
