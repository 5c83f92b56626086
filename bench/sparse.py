"""Checkpoints of real shapes that take hardly any disk: a few rows of each matrix, and then holes.

A file system gives zeros for what was never written, so a reader sees all of a checkpoint: its
shards, its index, its bytes. What compiling it takes in memory and time is that of a full one, for
nothing there depends on values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np

from checkpoint import Shape, config, tensors, write_tokenizer

INDEX = "model.safetensors.index.json"
ROWS = 32
"""Rows of each matrix that hold numbers."""

SHARD_BYTES = 5 << 30
"""A shard at most, but for a tensor that is larger, as the Hugging Face hub has them."""

Sizes = Mapping[str, tuple[int, ...]]


def write_sparse(folder: Path, shape: Shape, *, shard: int = SHARD_BYTES) -> int:
    """Write a checkpoint of ``shape``, matrices N(0, 0.02) and norms one, in float16.

    Returns:
        The bytes of all tensors, most of which take no room on the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, shape.vocab, shape.context)
    shards = list(_shards(tensors(shape), shard))
    total = 0
    places: dict[str, str] = {}
    for number, sizes in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        total += _write_shard(folder / name, sizes)
        places |= dict.fromkeys(sizes, name)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index), "utf-8")
    (folder / "config.json").write_text(json.dumps(config(shape)), "utf-8")
    return total


def _shards(sizes: Iterator[tuple[str, tuple[int, ...]]], most: int) -> Iterator[Sizes]:
    shard: dict[str, tuple[int, ...]] = {}
    room = most
    for name, size in sizes:
        if 2 * prod(size) > room and shard:
            yield shard
            shard, room = {}, most
        shard[name] = size
        room -= 2 * prod(size)
    yield shard


def _write_shard(path: Path, sizes: Sizes) -> int:
    """Write a file of float16; returns the bytes of its tensors."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, size in sizes.items():
        begin, end = end, end + 2 * prod(size)
        table[name] = {"dtype": "F16", "shape": list(size), "data_offsets": [begin, end]}
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % 8)
    rng = np.random.default_rng(len(sizes))
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for size in sizes.values():
            begin = file.tell()
            if len(size) == 1:
                file.write(np.ones(size, np.float16).tobytes())
            else:
                some = (min(ROWS, size[0]), *size[1:])
                values = rng.standard_normal(some, np.float32) * np.float32(0.02)
                file.write(values.astype(np.float16).tobytes())
            file.seek(begin + 2 * prod(size))
        file.truncate()
    return end
