"""Files that appear whole or not at all, hashes of large ones, and the user's folders.

Everything is written under a temporary name beside its target, flushed to the disk and renamed, so
a reader never meets half a file and a failure leaves what was there before. For whole folders see
`folders`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from edgewise_runtime.errors import StorageError
from edgewise_runtime.locks import lock_path

CHUNK = 1 << 20
_MAX_SHOWN = 1000
"""Bytes hashed at a time."""

_CAUSES: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("full", "Free some space on that disk or choose another folder."),
    errno.EDQUOT: ("full", "Free some of your quota on that disk or choose another folder."),
    errno.EFBIG: ("full", "The disk, or `ulimit -f`, allows no file of that size: choose another."),
    errno.EACCES: ("permission", "Check who owns it, or choose a folder you may write to."),
    errno.EPERM: ("permission", "Check who owns it, or choose a folder you may write to."),
    errno.EROFS: ("permission", "The disk is mounted read-only: choose another folder."),
    errno.ENOENT: ("missing", "Check the path."),
    errno.ENOTDIR: ("missing", "Check the path: a part of it is a file."),
    errno.EEXIST: ("exists", "Check the path: something else stands there, or above it."),
    errno.EISDIR: ("type", "Check the path: it is a folder."),
}


def storage_error(cause: OSError, action: str, path: Path) -> StorageError:
    """The error to raise where `action` on `path` failed with `cause`."""
    what, remedy = _CAUSES.get(cause.errno or 0, ("io", ""))
    reason = cause.strerror or str(cause)
    name = str(shown(path))
    if len(name) > _MAX_SHOWN:
        name = f"{name[: _MAX_SHOWN // 2]}…{name[-_MAX_SHOWN // 2 :]}"
    return StorageError(
        f"Could not {action} {name}: {reason}.", remedy=remedy, code=f"storage.{what}"
    )


def shown(path: Path) -> Path:
    """What people call a file: of one that is reached by its folder's handle, where that is now."""
    if path.parts[:4] == ("/", "proc", "self", "fd"):
        with suppress(OSError):
            return Path(*path.parts[:5]).readlink().joinpath(*path.parts[5:])
    return path


@contextmanager
def storage_errors(action: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `StorageError` that says what to do.

    Raises:
        StorageError: ``storage.full``, ``.permission``, ``.missing``, ``.type`` or ``.io``.
    """
    try:
        yield
    except OSError as cause:
        raise storage_error(cause, action, path) from cause


_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp")


@contextmanager
def temporary_file(path: Path, mode: int) -> Iterator[tuple[Path, int]]:
    """A new file beside `path`, and its handle to be closed; it goes with the block.

    As long as the block lasts it is locked: one that nobody has locked is what a killed process
    left, see `remove_left`.
    """
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            claim = lock_path(temporary)
            break
        except (BlockingIOError, FileNotFoundError):  # taken for one that was left
            os.close(handle)
    try:
        yield temporary, handle
    finally:
        with suppress(OSError):
            temporary.unlink()
        if claim is not None:
            os.close(claim)


def remove_left(path: Path) -> None:
    """Remove what killed processes left of writing `path`; what cannot be removed stays."""
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name)
            if found is not None and found[1] == path.name:
                unlink_unclaimed(Path(entry.path))


def unlink_unclaimed(temporary: Path) -> None:
    """Remove a `temporary_file` whose process has ended, as far as locks tell."""
    with suppress(OSError):  # BlockingIOError: it is being written
        claim = lock_path(temporary)
        if claim is not None:
            temporary.unlink()
            os.close(claim)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, which makes a rename in it last; only POSIX can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file atomically. `mode` is reduced by the umask, as for any new file.

    Raises:
        StorageError: see `storage_errors`; whatever stood at `path` still stands.
    """
    with storage_errors("write", path):
        remove_left(path)
        with temporary_file(path, mode) as (temporary, handle):
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        sync_folder(path.parent)


def write_json(path: Path, value: Any, *, indent: int | None = None, mode: int = 0o666) -> None:
    """Write JSON as UTF-8 with a final newline, atomically. NaN and infinities are refused.

    `mode` is that of `write_bytes`.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, indent=indent, separators=separators, allow_nan=False)
    write_bytes(path, (text + "\n").encode(), mode=mode)


def read_bytes(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes.

    Raises:
        StorageError: ``storage.size`` for a larger one, else see `storage_errors`.
    """
    with storage_errors("read", path):
        if not path.is_file():
            cause = errno.EISDIR if path.is_dir() else errno.ENOENT
            raise OSError(cause, os.strerror(cause))
        with path.open("rb") as file:
            # Python takes memory for all that is asked for before it reads: no more than there is.
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, most) + 1)
            while size < len(data) <= most and (more := file.read(CHUNK)):  # it grows
                data += more
    if len(data) > most:
        raise StorageError(f"{shown(path)} is larger than {most} bytes.", code="storage.size")
    return data


def sha256_bytes(data: bytes) -> str:
    """SHA-256 as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file, read in pieces; `progress` hears how many bytes each piece had."""
    with storage_errors("read", path), path.open("rb", buffering=0) as file:
        return sha256_open(file, progress)


def sha256_open(file: FileIO, progress: Callable[[int], None] | None = None) -> str:
    """As `sha256_file` of an open file, from its first byte on; raises OSError."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(CHUNK))
    file.seek(0)
    while count := file.readinto(piece):
        digest.update(piece[:count])
        if progress is not None:
            progress(count)
    return digest.hexdigest()


def _user_folder(variable: str, fallback: str) -> Path:
    chosen = os.environ.get(variable, "")
    # The XDG rules say that a relative path is to be ignored.
    if chosen and Path(chosen).is_absolute():
        return Path(chosen) / "edgewise"
    try:
        home = Path.home()
    except RuntimeError as cause:
        raise StorageError(
            "This user has no home folder.", remedy=f"Set {variable}.", code="storage.missing"
        ) from cause
    return home / fallback / "edgewise"


def data_folder() -> Path:
    """Where this user's edgewise data lives: ``$XDG_DATA_HOME`` or ``~/.local/share``."""
    return _user_folder("XDG_DATA_HOME", ".local/share")


def cache_folder() -> Path:
    """Where what can be rebuilt lives: ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    return _user_folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """Where what was typed lives: ``$XDG_STATE_HOME`` or ``~/.local/state``."""
    return _user_folder("XDG_STATE_HOME", ".local/state")


def temporary_folder() -> Path:
    """Where the system keeps temporary files: ``$TMPDIR``, ``/tmp`` or what else can be written to.

    Raises:
        StorageError: ``storage.temporary`` where none of them can.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as cause:
        raise StorageError(
            f"{cause.strerror}.",
            remedy="Free some space in one of them, or name another folder in TMPDIR.",
            code="storage.temporary",
        ) from cause
