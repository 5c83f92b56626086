"""A bundle: the folder `compile` writes and every device reads.

`Bundle.open` believes nothing: sizes are compared with the files, every name is a plain relative
path that stays inside the folder, every tensor lies inside its file. What is checked when:

- at open: the manifest, its own digest first, every file's size, and the sha256 of every file
  without parameters (plans, tokenizer, libraries), unless ``verify=False``; not of pages that are
  shipped, which are hashed when they are read;
- when a program's plans are first asked for: the plans, their sha256, and that they agree with the
  tensors and states they bind;
- at the first load of a program: the sha256 of its parameter files; a stamp in the user's cache
  folder (size, times, sha256) makes the next start quick (`Bundle.open_params`);
- at every load: the sha256 of the program's code, of the bytes that are then loaded
  (`devices.loading`).

`Bundle.check` does all of it at once. A bundle that is open stays the one that was opened, also
where another replaces it meanwhile (`held`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from io import FileIO
from pathlib import Path

from edgewise_runtime.errors import BundleError, EdgewiseError
from edgewise_runtime.files import (
    read_bytes,
    sha256_bytes,
    sha256_file,
    sha256_open,
    storage_errors,
    write_bytes,
)
from edgewise_runtime.format.manifest import (
    CHUNK_BYTES,
    TENSOR_ALIGNMENT,
    BundleManifest,
    Entry,
    FileEntry,
    ModelInfo,
    Needs,
    Program,
    StateGroup,
    TensorEntry,
)
from edgewise_runtime.format.packs import is_page
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.program_checks import check_program
from edgewise_runtime.format.programs import best_program
from edgewise_runtime.format.reading import count_values, parse_json, shorten
from edgewise_runtime.format.seal import MANIFEST, MAX_BYTES
from edgewise_runtime.format.stamps import Stamp, Stamps, make_stamp
from edgewise_runtime.held import Held

__all__ = [
    "TENSOR_ALIGNMENT",
    "Bundle",
    "BundleManifest",
    "Entry",
    "FileEntry",
    "ModelInfo",
    "Needs",
    "Program",
    "StateGroup",
    "TensorEntry",
    "choose_program",
    "describe_files",
    "read_manifest",
    "write_manifest",
]

MAX_PLANS = 1 << 24
"""Bytes of all plans of a program at most."""

MAX_PLAN_VALUES, MAX_PLANS_VALUES = 1 << 18, 1 << 20
"""Values of a plan, and of all plans of a program, at most, as `reading.count_values` counts."""

MOST_OPEN = 32
"""Files of parameters that are open at a time: systems allow a process few hundred."""

Progress = Callable[[str, int, int], None]
"""Called with a file's path in the bundle, bytes hashed so far and bytes in all."""


def _error(what: str, message: str, remedy: str = "") -> BundleError:
    return BundleError(message, remedy=remedy, code=f"bundle.{what}")


class Bundle:
    """An opened bundle. Open one with `Bundle.open`.

    Attributes:
        path: the folder, resolved.
        folder: leads to the folder that was opened for as long as this is open, whatever stands at
            `path` by then.
        manifest: what ``bundle.json`` says, checked.
    """

    def __init__(self, path: Path, manifest: BundleManifest, held: Held | None = None) -> None:
        self.path = path
        self.manifest = manifest
        self._held = held
        self.folder = path if held is None else held.files
        self._plans: dict[str, dict[str, Plan]] = {}

    @staticmethod
    def open(path: str | Path, *, verify: bool = True, progress: Progress | None = None) -> Bundle:
        """Read and check a bundle folder.

        Args:
            path: the folder that holds ``bundle.json``.
            verify: also hash every file without parameters now, but for pages.
            progress: hears about every file hashed.

        Raises:
            BundleError: whatever is wrong with the bundle.
            StorageError: where a file cannot be read.
        """
        folder = Path(path)
        with storage_errors("open", folder):
            present = (folder / MANIFEST).exists()
        if not present:
            raise _error(
                "missing",
                f"{folder} is no bundle: it has no {MANIFEST}.",
                "Check the path, or compile a model with `edgewise compile MODEL`.",
            )
        with storage_errors("open", folder):
            folder = folder.resolve(strict=True)
            held = Held(folder)
        bundle = Bundle(folder, read_manifest(held.files), held)
        for name in bundle.manifest.files:
            bundle._check_file(name)
        if verify:
            params = {
                t.file for layout in bundle.manifest.layouts.values() for t in layout.values()
            }
            for name in bundle.manifest.files.keys() - params:
                if not is_page(name):
                    bundle._check_hash(name, progress)
        return bundle

    def check(self, progress: Progress | None = None) -> None:
        """Check everything: all programs' plans, and the sha256 of every file, stamped or not.

        Raises:
            BundleError: whatever is wrong with the bundle.
            PlanError: where a plan is malformed.
        """
        for name in self.manifest.files:
            self._check_file(name)
            self._check_hash(name, progress)
        for program in self.manifest.programs:
            self.plans(program.id)

    def close(self) -> None:
        """Read no more of its files, so that they can go where another bundle has replaced it.

        A bundle that nobody refers to any more is closed. Closing twice is fine.
        """
        if self._held is not None:
            self._held.release()

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def model(self) -> ModelInfo:
        return self.manifest.model

    @cached_property
    def total_bytes(self) -> int:
        """Size of all files in bytes."""
        return sum(entry.bytes for entry in self.manifest.files.values())

    def file(self, name: str) -> Path:
        """A path to a listed file, its size checked when the bundle was opened.

        It leads to the bundle that was opened, and only as long as that is open.

        Raises:
            BundleError: ``bundle.unknown_name`` for a file the manifest does not list.
        """
        self._entry(name)
        return self.folder / name

    def read(self, name: str) -> bytes:
        """A listed file's contents, compared with its sha256.

        Raises:
            BundleError: ``bundle.unknown_name`` or ``bundle.checksum``.
        """
        entry = self._entry(name)
        data = read_bytes(self._check_file(name), entry.bytes)
        self._compare(name, sha256_bytes(data))
        return data

    def plans(self, program_id: str) -> Mapping[str, Plan]:
        """The plans of a program by name, read and checked once.

        Raises:
            BundleError: where a plan is damaged or disagrees with the manifest.
            PlanError: where a plan is malformed or two plans disagree.
        """
        if program_id not in self._plans:
            program = self.manifest.program(program_id)
            plans = self._read_plans(program)
            check_program(self.manifest, program, plans)
            self._plans[program_id] = plans
        return self._plans[program_id]

    def verify_params(self, layout: str, progress: Progress | None = None) -> None:
        """`open_params`, and nothing else.

        Raises:
            BundleError: ``bundle.checksum`` for a damaged file.
        """
        for _ in self.open_params(layout, progress):
            pass

    def open_params(
        self, layout: str, progress: Progress | None = None
    ) -> Iterator[Mapping[str, FileIO]]:
        """The parameter files of a layout by name, a few at a time, open until the next ones are
        asked for, for a loop that copies what it needs.

        They are hashed before, except those stamped as hashed before, and once more afterwards
        where they have another stamp by then: what the loop has read is what ``bundle.json`` lists.
        A stamp holds size, modification and change time and sha256 of a file and lives in the
        user's cache folder; a file changed since has other times and is hashed again.

        Raises:
            BundleError: ``bundle.checksum`` for a file that is damaged, or changed meanwhile;
                ``bundle.missing``, ``.size``, ``.type`` and ``.path`` as when it was opened.
        """
        names = sorted({tensor.file for tensor in self.manifest.layouts[layout].values()})
        stamps = Stamps(self.path)
        for first in range(0, len(names), MOST_OPEN):
            with ExitStack() as opened:
                files: dict[str, FileIO] = {}
                before: dict[str, Stamp] = {}
                for name in names[first : first + MOST_OPEN]:
                    path = self._check_file(name)
                    with storage_errors("read", path):
                        files[name] = opened.enter_context(path.open("rb", buffering=0))
                    before[name] = self._stamp(name, files[name])
                    if not stamps.holds(name, before[name]):
                        self._check_hash(name, progress, files[name])
                        stamps.add(name, before[name])
                yield files
                for name, file in files.items():
                    if self._stamp(name, file) != before[name]:
                        self._check_hash(name, progress, file)
        stamps.save()

    def _stamp(self, name: str, file: FileIO) -> Stamp:
        return make_stamp(os.fstat(file.fileno()), self._entry(name).sha256)

    def _entry(self, name: str) -> FileEntry:
        entry = self.manifest.files.get(name)
        if entry is None:
            raise _error("unknown_name", f"Bundle {self.name!r} lists no file {shorten(name)}.")
        return entry

    def _check_file(self, name: str) -> Path:
        """A listed file's path, once it is a regular file of the right size inside the folder."""
        path, found = self.path / name, self.folder / name
        try:
            status = found.stat()
            linked = any((self.folder / part).is_symlink() for part in _parts(name))
            real = found.resolve(strict=True) if linked else None
        except OSError as cause:
            message = f"{path} is listed in {MANIFEST} and cannot be read: {cause.strerror}."
            raise _error("missing", message, "Copy or compile the bundle again.") from cause
        if real is not None and not real.is_relative_to(self.folder.resolve()):
            raise _error("path", f"{path} is a link to {real}, outside the bundle.")
        if not stat.S_ISREG(status.st_mode):
            raise _error("type", f"{path} is not a regular file.")
        expected = self._entry(name).bytes
        if status.st_size != expected:
            message = f"{path} has {status.st_size} bytes, {MANIFEST} says {expected}."
            raise _error("size", message, "The copy is incomplete: copy or compile it again.")
        return found

    def _check_hash(self, name: str, progress: Progress | None, file: FileIO | None = None) -> None:
        total, done = self._entry(name).bytes, 0

        def hear(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(name, done, total)

        path = self.folder / name
        with storage_errors("read", path):
            self._compare(
                name, sha256_file(path, hear) if file is None else sha256_open(file, hear)
            )

    def _compare(self, name: str, sha256: str) -> None:
        expected = self._entry(name).sha256
        if sha256 != expected:
            message = f"{self.path / name} is damaged: its sha256 is {sha256}, not {expected}."
            raise _error("checksum", message, "Copy or compile the bundle again.")

    def _read_plans(self, program: Program) -> dict[str, Plan]:
        size = sum(self._entry(path).bytes for path in program.plans.values())
        if size > MAX_PLANS:
            message = f"its plans have {size:,} bytes; {MAX_PLANS:,} are read at most"
            raise _error("size", f"Program {program.id!r}: {message}.")
        left = MAX_PLANS_VALUES
        plans: dict[str, Plan] = {}
        for name, path in program.plans.items():
            text = self.read(path)
            value = parse_json(text, path, BundleError, most=min(left, MAX_PLAN_VALUES))
            left -= count_values(text)
            plans[name] = Plan.from_json(value)
        return plans


def _parts(name: str) -> list[str]:
    """A file's path in the bundle and those of the folders in there that it is in."""
    cuts = [at for at, letter in enumerate(name) if letter == "/"]
    return [*(name[:at] for at in cuts), name]


def choose_program(
    bundle: Bundle,
    features: frozenset[str],
    arithmetic: str | None = None,
    *,
    target: str,
) -> Program:
    """`programs.best_program` of an opened bundle."""
    return best_program(bundle.manifest, features, arithmetic, target=target)


def has_programs(folder: Path, targets: Iterable[str], context: int) -> bool:
    """Whether there is a bundle with programs for these targets, and with room for so many tokens
    of context. One that cannot be read has none."""
    try:
        manifest = Bundle.open(folder, verify=False).manifest
    except EdgewiseError:
        return False
    there = {program.target for program in manifest.programs}
    return there.issuperset(targets) and context <= manifest.model.context


def describe_files(
    folder: Path, known: Collection[str] = (), *, progress: Callable[[int, int], None] | None = None
) -> dict[str, FileEntry]:
    """Size and hashes of every file under a folder but ``bundle.json`` and those that are known, by
    path in the folder.

    Args:
        progress: told how many bytes of how many were read.
    """
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in found}
    wanted = {n: path for n, path in names.items() if n != MANIFEST and n not in known}
    done, total = 0, sum(path.stat().st_size for path in wanted.values())

    def hear(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    hear(0)
    return {name: _describe(path, hear) for name, path in wanted.items()}


def _describe(path: Path, hear: Callable[[int], None]) -> FileEntry:
    size = path.stat().st_size
    if not FileEntry.chunk_count(size):
        return FileEntry(size, sha256_file(path, hear))
    whole, chunks = hashlib.sha256(), []
    with storage_errors("read", path), path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            whole.update(piece)
            chunks.append(hashlib.sha256(piece).hexdigest())
            hear(len(piece))
    return FileEntry(size, whole.hexdigest(), tuple(chunks))


def read_manifest(folder: Path) -> BundleManifest:
    """What a folder's ``bundle.json`` says, whatever the files are that it lists.

    Raises:
        BundleError: whatever is wrong with it.
        StorageError: where it cannot be read.
    """
    return BundleManifest.from_bytes(read_bytes(folder / MANIFEST, MAX_BYTES))


def write_manifest(folder: Path, manifest: BundleManifest) -> None:
    """Write ``bundle.json``, once reading it back gives the same manifest.

    Raises:
        BundleError: where the reader would refuse it.
        StorageError: where it cannot be written.
    """
    data = manifest.to_bytes()
    if BundleManifest.from_bytes(data) != manifest:
        raise _error(
            "manifest", f"The manifest of {manifest.name!r} does not read back as written."
        )
    write_bytes(folder / MANIFEST, data)
