"""The list of an MLC folder's tensors, validated before anything is allocated from it.

Format: tvmjs' tensor cache. A record is a shard with whole tensors in it, little-endian and in C
order; float32 that is stored ``f32-to-bf16`` has its upper halves only.
"""

from __future__ import annotations

import hashlib
from math import prod
from pathlib import Path
from typing import Any

from edgewise_compiler.mlc.names import CACHES
from edgewise_compiler.weights.files import check_fetched, checkpoint_json, damaged, read_exactly
from edgewise_compiler.weights.open_files import BLOCK
from edgewise_compiler.weights.safetensors import MAX_INDEX, MAX_NAME
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import TensorEntry
from edgewise_runtime.format.reading import shorten

MAX_SHARDS = 1 << 16
MAX_DIMS = 4
MAX_EXTENT = 1 << 40

FORMATS = ("raw", "f32-to-bf16")

STORED = {
    ("uint32", "raw"): ("U32", 4),
    ("float32", "raw"): ("F32", 4),
    ("float32", "f32-to-bf16"): ("BF16", 2),
    ("float16", "raw"): ("F16", 2),
    ("float16", "f32-to-bf16"): ("F16", 2),
    ("bfloat16", "raw"): ("BF16", 2),
    ("bfloat16", "f32-to-bf16"): ("BF16", 2),
    ("uint32", "f32-to-bf16"): ("U32", 4),
}
"""By dtype and format, of which the latter changes float32 alone: our name, and bytes."""


def read_cache(folder: Path) -> dict[str, TensorEntry]:
    """Every tensor of a folder, by its name there.

    Raises:
        CheckpointError: no list, one that is malformed or lists what is not in the folder, or a
            shard whose MD5 is not the listed one.
    """
    path = next((folder / name for name in CACHES if (folder / name).is_file()), None)
    if path is None:
        raise CheckpointError(
            f"{folder} has no {CACHES[0]}.",
            remedy="Download the whole folder, weights included.",
            code="checkpoint.weights",
        )
    with storage_errors("read", path):
        check_fetched(path)
        if path.stat().st_size > MAX_INDEX:
            raise damaged(path, f"it has more than {MAX_INDEX} bytes")
        content = checkpoint_json(path.read_bytes(), path)
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list) or not 0 < len(records) <= MAX_SHARDS:
        raise damaged(path, "it has no list of records")
    tensors: dict[str, TensorEntry] = {}
    shards: dict[str, str] = {}
    for record in records:
        file, size, digest = _shard(path, record)
        if file in shards:
            raise damaged(path, f"{shorten(file)} is listed twice")
        shards[file] = digest
        for item in record["records"]:
            name, entry = _tensor(path, file, size, item)
            if name in tensors:
                raise damaged(path, f"{shorten(name)} is listed twice")
            tensors[name] = entry
    for file, digest in shards.items():
        _check_md5(folder / file, digest)
    return tensors


def _shard(path: Path, record: Any) -> tuple[str, int, str]:
    """Name, bytes and MD5 of a shard."""
    if not isinstance(record, dict) or not isinstance(record.get("records"), list):
        raise damaged(path, f"it lists {shorten(record)}")
    file, size, digest = record.get("dataPath"), record.get("nbytes"), record.get("md5sum")
    if not isinstance(file, str) or not _plain(file):
        raise damaged(path, f"it lists {shorten(file)}, which is no file name")
    if record.get("format", "raw-shard") != "raw-shard":
        raise damaged(path, f"{shorten(file)} has format {shorten(record['format'])}")
    if not isinstance(digest, str):
        raise damaged(path, f"{shorten(file)} has no md5sum")
    shard = path.with_name(file)
    with storage_errors("read", shard):
        if not shard.is_file():
            raise damaged(path, f"it lists {shorten(file)}, which is not in the folder")
        check_fetched(shard)
        found = shard.stat().st_size
    if _natural(size) != found:
        raise damaged(path, f"{shorten(file)} has {found} bytes, of {shorten(size)}")
    return file, found, digest


def _plain(file: str) -> bool:
    """Whether a shard's name is one, without folders."""
    short = len(file.encode("utf-8", "surrogatepass")) <= MAX_NAME
    return short and file not in ("", ".", "..") and not any(c in file for c in "/\\:\0")


def _tensor(path: Path, file: str, size: int, item: Any) -> tuple[str, TensorEntry]:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise damaged(path, f"{shorten(file)} has a tensor {shorten(item)}")
    name, shape = item["name"], item.get("shape")
    if not isinstance(shape, list) or not 0 < len(shape) <= MAX_DIMS:
        raise damaged(path, f"{shorten(name)} has shape {shorten(shape)}")
    if not all(_natural(extent) for extent in shape):
        raise damaged(path, f"{shorten(name)} has shape {shorten(shape)}")
    kind, layout = item.get("dtype"), item.get("format", "raw")
    words = isinstance(kind, str) and isinstance(layout, str)
    stored = STORED.get((str(kind), str(layout))) if words else None
    if stored is None:
        raise damaged(path, f"{shorten(name)} is {shorten(kind)}, stored {shorten(layout)}")
    dtype, width = stored
    count, offset = _natural(item.get("nbytes")), _natural(item.get("byteOffset"))
    if count is None or offset is None or offset + count > size:
        what = f"{shorten(item.get('nbytes'))} bytes from {shorten(item.get('byteOffset'))} on"
        raise damaged(path, f"{shorten(name)} has {what}, of {size}")
    if prod(shape) * width != count:
        raise damaged(path, f"{shorten(name)} of shape {shape} and {dtype} has {count} bytes")
    return name, TensorEntry(file, dtype, tuple(shape), offset, count)


def _natural(value: object) -> int | None:
    """A number of bytes or elements; None for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_EXTENT else None


def _check_md5(path: Path, expected: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with storage_errors("read", path), path.open("rb", buffering=0) as file:
        left = path.stat().st_size
        while left:
            piece = read_exactly(file, min(left, BLOCK), path)
            digest.update(piece.data)
            left -= len(piece)
    if digest.hexdigest() != expected.lower():
        raise damaged(path, f"its MD5 is {digest.hexdigest()}, not {shorten(expected)}")
