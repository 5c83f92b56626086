"""Shards of an MLC folder as they are written, block by block, and their list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from edgewise_compiler.mlc.names import CACHES
from edgewise_compiler.weights.files import Bytes
from edgewise_runtime.errors import memory_errors
from edgewise_runtime.files import write_json

CAP = 32 << 20
"""Bytes of a shard; a tensor that is larger has one of its own."""

SIZES = {"uint32": 4, "float16": 2, "float32": 2}
"""Bytes of an element on the disk: float32 has its upper half only."""


@dataclass(frozen=True)
class Written:
    """A tensor: what the list says of it, and its bytes, some at a time."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Iterator[Bytes]

    @property
    def bytes(self) -> int:
        """Its size on the disk."""
        return prod(self.shape) * SIZES[self.dtype]

    @property
    def layout(self) -> str:
        """How the list calls what lies there."""
        return "f32-to-bf16" if self.dtype == "float32" else "raw"


@dataclass
class _Shard:
    size: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)
    md5: Any = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))


@memory_errors("exporting")
def write_shards(folder: Path, tensors: Iterator[Written], weights: int) -> None:
    """Write tensors, in memory a piece of one at a time, and the list of them.

    Args:
        weights: how many parameters the model has.

    Raises:
        StorageError: the disk is full or not writable.
    """
    listed: list[Mapping[str, Any]] = []
    shard = _Shard()
    total = 0
    for tensor in tensors:
        if shard.records and shard.size + tensor.bytes > CAP:
            listed.append(_entry(len(listed), shard))
            shard = _Shard()
        with (folder / _name(len(listed))).open("ab") as file:
            for piece in tensor.pieces:
                file.write(piece.data)
                shard.md5.update(piece.data)
        shard.records.append(
            {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "dtype": tensor.dtype,
                "format": tensor.layout,
                "nbytes": tensor.bytes,
                "byteOffset": shard.size,
            }
        )
        shard.size += tensor.bytes
        total += tensor.bytes
    listed.append(_entry(len(listed), shard))
    metadata = {
        "ParamSize": sum(len(entry["records"]) for entry in listed),
        "ParamBytes": float(total),
        "BitsPerParam": 8 * total / max(1, weights),
    }
    for name in CACHES:
        # WebLLM looked for the older name until 2026.
        write_json(folder / name, {"metadata": metadata, "records": listed})


def _name(number: int) -> str:
    return f"params_shard_{number}.bin"


def _entry(number: int, shard: _Shard) -> Mapping[str, Any]:
    return {
        "dataPath": _name(number),
        "format": "raw-shard",
        "nbytes": shard.size,
        "records": shard.records,
        "md5sum": shard.md5.hexdigest(),
    }
