"""Generated code kept in a folder, so that no process generates again what another one did.

Off unless ``EDGEWISE_KEPT_KERNELS`` names a folder. What lies there becomes part of bundles that
this user then trusts, so it must be a folder that nobody else can write to; one that is made here
is the user's own. Entries are found by a sha256 of all that decides them: the module, the target,
the versions of TVM and the source of the code that drives it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tvm
import tvm_ffi

from edgewise_runtime.files import storage_errors

VARIABLE = "EDGEWISE_KEPT_KERNELS"
LIMIT = 512 << 20
"""Bytes a folder may hold; beyond them what was not used for longest is removed."""

_LOOK_EVERY = 32  # writes of a process between two looks at the folder's size
_DIGEST = hashlib.sha256().digest_size
_writes = 0


def kept(
    make: Callable[[], bytes], module: tvm.IRModule, target: tvm.target.Target, *drivers: Path
) -> bytes:
    """``make()``, or what it gave when the same was last asked for, here or in another process.

    An entry that is damaged counts as missing and is written anew.

    Args:
        make: generates code of ``module`` for ``target``, and depends on nothing else.
        drivers: the source files that ``make`` is in; entries of their other versions are not used.

    Raises:
        StorageError: the folder cannot be written to.
    """
    return kept_by(make, *_parts(module, target, drivers))


def kept_by(make: Callable[[], bytes], *parts: str) -> bytes:
    """As `kept`, of what is decided by some texts: all that ``make`` depends on.

    Raises:
        StorageError: the folder cannot be written to.
    """
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return make()
    folder = Path(chosen)
    path = folder / hashlib.sha256("\0".join(parts).encode()).hexdigest()
    found = _read(path)
    if found is None:
        found = make()
        with storage_errors("keep kernels in", folder):
            _write(path, found)
    return found


def _parts(
    module: tvm.IRModule, target: tvm.target.Target, drivers: Sequence[Path]
) -> tuple[str, ...]:
    # The script names every attribute and prints floats to their last bit.
    return (
        tvm.__version__,
        tvm_ffi.__version__,
        json.dumps(dict(tvm.support.libinfo()), sort_keys=True),
        *(driver.read_text(encoding="utf-8") for driver in drivers),
        str(target),
        str(target.host),
        module.script(show_meta=True),
    )


def _read(path: Path) -> bytes | None:
    """An entry's content, or None where it is missing or damaged."""
    try:
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    content = data[_DIGEST:]
    return content if hashlib.sha256(content).digest() == data[:_DIGEST] else None


def _write(path: Path, content: bytes) -> None:
    """Write an entry; it is not flushed to the disk, since a damaged one is noticed."""
    global _writes
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        temporary.write_bytes(hashlib.sha256(content).digest() + content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if _writes % _LOOK_EVERY == 0:
        trim(path.parent, LIMIT)
    _writes += 1


def trim(folder: Path, limit: int) -> None:
    """Remove what was not used for longest until three quarters of ``limit`` bytes are left."""
    entries = sorted(_entries(folder))
    held = sum(size for _, size, _ in entries)
    if held <= limit:
        return
    for _, size, path in entries:
        if held <= limit * 3 // 4:
            return
        path.unlink(missing_ok=True)
        held -= size


def _entries(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """When each file of the folder was last used, its bytes and its path."""
    with os.scandir(folder) as found:
        for entry in found:
            try:
                stat = entry.stat()
            except FileNotFoundError:  # another process trims as well
                continue
            yield stat.st_mtime_ns, stat.st_size, Path(entry.path)
