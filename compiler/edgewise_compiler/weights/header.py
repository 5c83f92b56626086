"""The header of a safetensors file, validated before anything is allocated from it.

Format: 8 bytes little-endian header size, a JSON object of ``{name: {dtype, shape,
data_offsets}}``, then the data (https://huggingface.co/docs/safetensors). The `safetensors` package
maps the whole file and has no bfloat16 in NumPy, so the header is read here, as strictly.
"""

from __future__ import annotations

from io import FileIO
from math import prod
from pathlib import Path

from edgewise_compiler.weights.files import checkpoint_json, damaged
from edgewise_runtime.format.bundle import TensorEntry
from edgewise_runtime.format.reading import shorten

MAX_HEADER = 16 << 20
"""Bytes; the header of a 1000-layer model takes about 2 MiB."""

MAX_DIMS = 8
MAX_EXTENT = 1 << 40

BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64,
    "F32": 32, "I32": 32, "U32": 32,
    "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Bits per element of every dtype of the format, whether or not weights may have it."""


def read_header(file: FileIO, size: int, path: Path) -> dict[str, TensorEntry]:
    """Every tensor of a safetensors file, in the order of its data.

    Args:
        file: the open file, positioned at its start.
        size: the file's size, bytes.
        path: for messages.

    Raises:
        CheckpointError: anything the format does not allow, including data that is missing, left
            over, overlapping or not as large as its shape says.
    """
    if size < 10:
        raise damaged(path, f"it has {size} bytes, fewer than the smallest header")
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MAX_HEADER, size - 8):
        raise damaged(path, f"its header claims {length} bytes of {size}")
    raw = file.read(length)
    if len(raw) != length:
        raise damaged(path, f"its header ends after {len(raw)} of {length} bytes")
    header = checkpoint_json(raw, path)
    if not isinstance(header, dict):
        raise damaged(path, f"its header is {shorten(header)} instead of an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise damaged(path, f"its metadata is {shorten(metadata)}")
    start = 8 + length
    entries = {name: _entry(name, value, start, path) for name, value in header.items()}
    entries = dict(sorted(entries.items(), key=lambda item: (item[1].offset, item[1].bytes)))
    end = start
    for name, entry in entries.items():
        if entry.offset != end:
            kind = "overlaps" if entry.offset < end else "leaves a gap after"
            raise damaged(path, f"{shorten(name)} {kind} the tensor before it")
        end += entry.bytes
    if end != size:
        raise damaged(path, f"its tensors end at byte {end} and the file at {size}")
    return entries


def _entry(name: str, value: object, start: int, path: Path) -> TensorEntry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise damaged(path, f"{shorten(name)} is described by {shorten(value)}")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise damaged(path, f"{shorten(name)} has dtype {shorten(dtype)}")
    if not _naturals(shape) or len(shape) > MAX_DIMS:
        raise damaged(path, f"{shorten(name)} has shape {shorten(shape)}")
    if not _naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise damaged(path, f"{shorten(name)} has data_offsets {shorten(offsets)}")
    begin, end = offsets
    if prod(shape) * BITS[dtype] != (end - begin) * 8:
        raise damaged(
            path, f"{shorten(name)} of shape {shape} and dtype {dtype} has {end - begin} bytes"
        )
    return TensorEntry(path.name, dtype, tuple(shape), start + begin, end - begin)


def _naturals(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= MAX_EXTENT
        for item in value
    )
