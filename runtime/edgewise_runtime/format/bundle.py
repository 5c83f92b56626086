"""A bundle: the folder `compile` writes and every device reads.

`Bundle.open` believes nothing: sizes are compared with the files, every name is a plain relative
path that stays inside the folder, every tensor lies inside its file. What is checked when:

- at open: the manifest, its own digest first, every file's size, and the sha256 of every file
  without parameters (plans, tokenizer, libraries), unless ``verify=False``;
- when a program's plans are first asked for: the plans, their sha256, and that they agree with the
  tensors and states they bind;
- at the first load of a program: the sha256 of its parameter files; a stamp in the user's cache
  folder (size, times, sha256) makes the next start quick (`Bundle.verify_params`);
- at every load: the sha256 of the program's code, of the bytes that are then loaded
  (`devices.loading`).

`Bundle.check` does all of it at once.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path

from edgewise_runtime.errors import BundleError
from edgewise_runtime.files import (
    read_bytes,
    sha256_bytes,
    sha256_file,
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
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.program_checks import check_program
from edgewise_runtime.format.programs import best_program
from edgewise_runtime.format.reading import count_values, parse_json, shorten
from edgewise_runtime.format.seal import MANIFEST, MAX_BYTES
from edgewise_runtime.format.stamps import Stamps, make_stamp

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

Progress = Callable[[str, int, int], None]
"""Called with a file's path in the bundle, bytes hashed so far and bytes in all."""


def _error(what: str, message: str, remedy: str = "") -> BundleError:
    return BundleError(message, remedy=remedy, code=f"bundle.{what}")


class Bundle:
    """An opened bundle. Open one with `Bundle.open`.

    Attributes:
        path: the folder, resolved.
        manifest: what ``bundle.json`` says, checked.
    """

    def __init__(self, path: Path, manifest: BundleManifest) -> None:
        self.path = path
        self.manifest = manifest
        self._plans: dict[str, dict[str, Plan]] = {}

    @staticmethod
    def open(path: str | Path, *, verify: bool = True, progress: Progress | None = None) -> Bundle:
        """Read and check a bundle folder.

        Args:
            path: the folder that holds ``bundle.json``.
            verify: also hash every file without parameters now.
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
        bundle = Bundle(folder, read_manifest(folder))
        for name in bundle.manifest.files:
            bundle._check_file(name)
        if verify:
            params = {
                t.file for layout in bundle.manifest.layouts.values() for t in layout.values()
            }
            for name in bundle.manifest.files.keys() - params:
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
        """The path of a listed file, its size checked when the bundle was opened.

        Raises:
            BundleError: ``bundle.unknown_name`` for a file the manifest does not list.
        """
        self._entry(name)
        return self.path / name

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
        """Hash the parameter files of a layout, except those stamped as hashed before.

        A stamp holds size, modification and change time and sha256 of a file and lives in the
        user's cache folder; a file changed since has other times and is hashed again.

        Raises:
            BundleError: ``bundle.checksum`` for a damaged file.
        """
        names = sorted({tensor.file for tensor in self.manifest.layouts[layout].values()})
        stamps = Stamps(self.path)
        for name in names:
            entry = self.manifest.files[name]
            stamp = make_stamp(self._check_file(name), entry.sha256)
            if not stamps.holds(name, stamp):
                self._check_hash(name, progress)
                stamps.add(name, stamp)
        stamps.save()

    def _entry(self, name: str) -> FileEntry:
        entry = self.manifest.files.get(name)
        if entry is None:
            raise _error("unknown_name", f"Bundle {self.name!r} lists no file {shorten(name)}.")
        return entry

    def _check_file(self, name: str) -> Path:
        """A listed file's path, once it is a regular file of the right size inside the folder."""
        path = self.path / name
        try:
            real = path.resolve(strict=True)
            status = real.stat()
        except OSError as cause:
            message = f"{path} is listed in {MANIFEST} and cannot be read: {cause.strerror}."
            raise _error("missing", message, "Copy or compile the bundle again.") from cause
        except RuntimeError as cause:
            raise _error("path", f"{path} is a loop of links.") from cause
        if not real.is_relative_to(self.path):
            raise _error("path", f"{path} is a link to {real}, outside the bundle.")
        if not stat.S_ISREG(status.st_mode):
            raise _error("type", f"{path} is not a regular file.")
        expected = self._entry(name).bytes
        if status.st_size != expected:
            message = f"{path} has {status.st_size} bytes, {MANIFEST} says {expected}."
            raise _error("size", message, "The copy is incomplete: copy or compile it again.")
        return path

    def _check_hash(self, name: str, progress: Progress | None) -> None:
        total, done = self._entry(name).bytes, 0

        def hear(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(name, done, total)

        self._compare(name, sha256_file(self.path / name, hear))

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


def choose_program(
    bundle: Bundle,
    features: frozenset[str],
    arithmetic: str | None = None,
    *,
    target: str,
) -> Program:
    """`programs.best_program` of an opened bundle."""
    return best_program(bundle.manifest, features, arithmetic, target=target)


def describe_files(folder: Path, known: Collection[str] = ()) -> dict[str, FileEntry]:
    """Size and hashes of every file under a folder but ``bundle.json`` and those that are known, by
    path in the folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in found}
    return {
        name: _describe(path)
        for name, path in names.items()
        if name != MANIFEST and name not in known
    }


def _describe(path: Path) -> FileEntry:
    size = path.stat().st_size
    if not FileEntry.chunk_count(size):
        return FileEntry(size, sha256_file(path))
    whole, chunks = hashlib.sha256(), []
    with storage_errors("read", path), path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            whole.update(piece)
            chunks.append(hashlib.sha256(piece).hexdigest())
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
