"""Kernel calls on disk: what a shader was given and what it answered, to ask another device again.

One ``.npz`` a call: ``about`` is JSON as bytes, ``before_0``, ``before_1``, … are the arguments and
``after_i`` those it may write: which of their bits are other ones afterwards, since most of a pool
of pages stays as it was. NumPy and the standard library only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MOST_BYTES = 8 << 20
"""Arguments of a call that is kept, at most: a device that computes small calls right computes
large ones of the same kernel right too."""

MOST_CALLS = 4
"""Calls kept of one kernel."""


@dataclass(frozen=True)
class Call:
    """One launch: WGSL with its entry point, workgroups in x and y, arguments before and after.

    ``after`` has the arguments that the shader may write, by position. ``fatbin`` is the same
    kernel for CUDA, with the entry point ``fatbin_entry``, where it was asked for.
    """

    kernel: str
    source: str
    entry: str
    grid: tuple[int, int]
    before: tuple[Array, ...]
    after: Mapping[int, Array]
    fatbin: bytes = b""
    fatbin_entry: str = ""


def save_call(folder: Path, call: Call) -> Path | None:
    """Write a call unless it is there, too large, or one too many of its kernel; its path."""
    if sum(array.nbytes for array in call.before) > MOST_BYTES:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    kernel = _digest(call.kernel.encode())
    inputs = (np.ascontiguousarray(array).tobytes() for array in call.before)
    path = (
        folder / f"{kernel}-{_digest(call.source.encode(), repr(call.grid).encode(), *inputs)}.npz"
    )
    if path.exists() or len(list(folder.glob(f"{kernel}-*.npz"))) >= MOST_CALLS:
        return None
    about = {"kernel": call.kernel, "source": call.source, "entry": call.entry, "grid": call.grid}
    about |= {"fatbin_entry": call.fatbin_entry}
    arrays = {f"before_{i}": array for i, array in enumerate(call.before)}
    for i, array in call.after.items():
        arrays[f"after_{i}"] = _bits(array) ^ _bits(call.before[i])
    arrays["fatbin"] = np.frombuffer(call.fatbin, np.uint8)
    encoded = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(path, about=encoded, allow_pickle=False, **arrays)
    return path


def load_call(path: Path) -> Call:
    """Read what :func:`save_call` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        about = json.loads(stored["about"].tobytes())
        count = sum(name.startswith("before_") for name in stored.files)
        x, y = about["grid"]
        before = tuple(stored[f"before_{i}"] for i in range(count))
        written = (i for i in range(count) if f"after_{i}" in stored.files)
        after = {i: _bits(before[i]) ^ stored[f"after_{i}"] for i in written}
        return Call(
            about["kernel"],
            about["source"],
            about["entry"],
            (x, y),
            before,
            {i: bits.view(before[i].dtype).reshape(before[i].shape) for i, bits in after.items()},
            stored["fatbin"].tobytes(),
            about["fatbin_entry"],
        )


def _bits(array: Array) -> npt.NDArray[np.uint8]:
    """Its bytes in a row."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]
