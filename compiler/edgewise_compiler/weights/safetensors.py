"""Hugging Face safetensors: one ``model.safetensors``, or shards beside an index."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgewise_compiler.foreign import foreign_weights
from edgewise_compiler.weights.files import (
    Bytes,
    Floats,
    check_fetched,
    check_finite,
    check_rows,
    checkpoint_json,
    damaged,
)
from edgewise_compiler.weights.header import read_header
from edgewise_compiler.weights.open_files import TensorFiles
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.reading import shorten

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_INDEX = 64 << 20
MAX_SHARDS = 4096
MAX_NAME = 255
"""Bytes of a file's name, as most file systems have it."""

_ANOTHER = "Use a checkpoint that fits its config.json."


def _from_bf16(raw: Bytes) -> Floats:
    """bfloat16 is the upper half of a float32."""
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


FLOATS: dict[str, Callable[[Bytes], Floats]] = {
    "F32": lambda raw: raw.view("<f4"),
    "F16": lambda raw: raw.view("<f2").astype(np.float32),
    "BF16": _from_bf16,
}
"""How each dtype that a weight may have becomes float32, without loss."""


class SafetensorsReader(TensorFiles):
    """The tensors of a checkpoint folder; implements :class:`~.base.WeightReader`.

    Raises:
        CheckpointError: no weights in the folder, or a file or index that is malformed.
        UnsupportedError: weights in another format only.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "The checkpoint", _ANOTHER)
        try:
            if (folder / SINGLE).is_file():
                self._add(folder / SINGLE)
            elif (folder / INDEX).is_file():
                self._add_shards(folder)
            else:
                raise _no_weights(folder)
        except BaseException:
            self.close()
            raise

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        entry = self._find(name)
        if entry.dtype not in FLOATS:
            raise UnsupportedError(
                f"{shorten(name)} in {entry.file} is stored as {entry.dtype}.",
                remedy=f"Use a checkpoint in one of {', '.join(FLOATS)}.",
                code="unsupported.dtype",
            )
        if not entry.shape or not entry.bytes:
            raise CheckpointError(
                f"{shorten(name)} in {entry.file} has shape {list(entry.shape)}: no rows to read.",
                remedy=_ANOTHER,
                code="checkpoint.weights",
            )
        rows = entry.shape[0]
        stop = check_rows(name, start, stop, rows)
        row_bytes = entry.bytes // rows
        raw = self._bytes(entry, start * row_bytes, (stop - start) * row_bytes)
        values = FLOATS[entry.dtype](raw).reshape(stop - start, *entry.shape[1:])
        check_finite(name, values, start)
        return values

    def _add(self, path: Path) -> set[str]:
        with storage_errors("read", path):
            check_fetched(path)
            file = self._files[path.name] = path.open("rb", buffering=0)
            entries = read_header(file, os.fstat(file.fileno()).st_size, path)
        for name in entries:
            if name in self._tensors:
                other = self._tensors[name].file
                raise damaged(path, f"{shorten(name)} is also in {other}")
        self._tensors |= entries
        return set(entries)

    def _add_shards(self, folder: Path) -> None:
        index = folder / INDEX
        for shard, names in read_index(index).items():
            path = folder / shard
            if not path.is_file():
                raise damaged(index, f"it lists {shorten(shard)}, which is not in the folder")
            found = self._add(path)
            if found != names:
                name = min(found ^ names)
                fault = "lacks" if name in names else "also holds"
                raise damaged(path, f"it {fault} {shorten(name)}, unlike {INDEX} says")


def read_index(path: Path) -> dict[str, set[str]]:
    """Tensor names by shard, as the index in a file lists them; shards are plain file names.

    Raises CheckpointError for what is no index.
    """
    index = Path(INDEX)
    with storage_errors("read", path):
        check_fetched(path)
        if path.stat().st_size > MAX_INDEX:
            raise damaged(index, f"it has more than {MAX_INDEX} bytes")
        content = checkpoint_json(path.read_bytes(), index)
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise damaged(index, "it has no weight_map")
    shards: dict[str, set[str]] = {}
    for name, shard in weight_map.items():
        plain = isinstance(shard, str) and shard.endswith(".safetensors")
        plain = plain and len(shard.encode("utf-8", "surrogatepass")) <= MAX_NAME
        if not plain or any(part in shard for part in ("/", "\\", ":", "\0")):
            raise damaged(index, f"{shorten(name)} is in {shorten(shard)}, which is no file name")
        shards.setdefault(shard, set()).add(name)
    if len(shards) > MAX_SHARDS:
        raise damaged(index, f"it lists {len(shards)} shards")
    return shards


def _no_weights(folder: Path) -> CheckpointError | UnsupportedError:
    return foreign_weights(folder, f"{SINGLE} and no {INDEX}") or CheckpointError(
        f"{folder} has no weights: neither {SINGLE} nor {INDEX}.",
        remedy="Download the whole checkpoint, weights included.",
        code="checkpoint.weights",
    )
