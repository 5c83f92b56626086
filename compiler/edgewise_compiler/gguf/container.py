"""The container of a GGUF file, validated before anything is allocated from it.

Format (ggml's docs/gguf.md): ``GGUF``, version, how many tensors and metadata pairs; the pairs; the
tensors' names, shapes, types and offsets; then the data, each tensor at a multiple of
``general.alignment`` right after the one before it. Little-endian throughout.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from dataclasses import dataclass
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.gguf.blocks import REMOVED, TYPES
from edgewise_compiler.weights.files import damaged
from edgewise_runtime.errors import EdgewiseError, UnsupportedError
from edgewise_runtime.format.bundle import TensorEntry
from edgewise_runtime.format.reading import shorten

VERSIONS = (2, 3)
MAX_KEY = 1 << 16
MAX_NAME = 64
"""Bytes of a key and of a tensor's name, by the format."""

MAX_DIMS = 4
MAX_EXTENT = 1 << 40
MAX_PAIRS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_TEXT = 64 << 20
MAX_ITEMS = 1 << 24
"""Bytes of one string, items of one array: a tokenizer has some hundred thousand."""

PIECE = 1 << 12
"""Bytes of a text that are decoded at a time."""

DEFAULT_ALIGNMENT = 32

Value = int | float | bool | str | list[str] | NDArray[Any]
"""What a key holds; an array is a list of strings or a NumPy array."""

_NUMBERS = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8",
    11: "<i8", 12: "<f8",
}  # fmt: skip
"""NumPy's name of each number in the metadata; 8 is a string and 9 an array."""

_STRING, _ARRAY, _BOOL = 8, 9, 7


@dataclass(frozen=True)
class Container:
    """What stands before the data.

    Attributes:
        metadata: values by key, in the order of the file.
        tensors: by name, in the order of the data; ``dtype`` is the name of a block type.
    """

    metadata: dict[str, Value]
    tensors: dict[str, TensorEntry]


def read_container(file: BufferedReader, size: int, path: Path) -> Container:
    """The metadata and the tensors of a GGUF file.

    Args:
        file: the open file, positioned at its start.
        size: the file's size, bytes.
        path: for messages.

    Raises:
        CheckpointError: anything the format does not allow, including data that is missing,
            overlapping, or not as large as its shape says.
        UnsupportedError: a big-endian file, another version, or a tensor type that is not known.
    """
    cursor = _Cursor(file, size, path)
    if cursor.take(4, "the format's name") != b"GGUF":
        raise damaged(path, "it does not begin with GGUF")
    _check_version(cursor.take(4, "the version"), path)
    tensors = cursor.count("tensors", least=8 + 1 + 4 + 8 + 4 + 8, most=MAX_TENSORS)
    pairs = cursor.count("metadata pairs", least=8 + 1 + 4 + 1, most=MAX_PAIRS)
    metadata: dict[str, Value] = {}
    for _ in range(pairs):
        key = cursor.text("a key", MAX_KEY)
        if key in metadata:
            raise damaged(path, f"the key {shorten(key)} appears twice")
        metadata[key] = _value(cursor, cursor.u32(), key)
    step = _alignment(metadata, path)
    infos = [_info(cursor, path) for _ in range(tensors)]
    return Container(metadata, _place(infos, -(-cursor.position // step) * step, step, size, path))


def _check_version(raw: bytes, path: Path) -> None:
    version = int.from_bytes(raw, "little")
    if version in VERSIONS:
        return
    swapped = int.from_bytes(raw, "big")
    raise UnsupportedError(
        f"{path.name} is a big-endian GGUF file."
        if swapped in VERSIONS
        else f"{path.name} has version {version} of GGUF.",
        remedy=f"Little-endian files of version {' or '.join(map(str, VERSIONS))} are read; "
        "convert the model again with a current llama.cpp.",
        code="unsupported.gguf",
    )


class _Cursor:
    """Reads on through the file; nothing is allocated that the rest of it could not hold."""

    def __init__(self, file: BufferedReader, size: int, path: Path) -> None:
        self._file = file
        self._size = size
        self.path = path
        self.position = 0

    def take(self, count: int, what: str) -> bytes:
        if count > self._size - self.position:
            left = self._size - self.position
            raise damaged(self.path, f"{what} has {count} bytes, of which {left} are there")
        raw = self._file.read(count)
        if len(raw) != count:
            raise damaged(self.path, f"it ends in the middle of {what}")
        self.position += count
        return raw

    def u32(self) -> int:
        return int.from_bytes(self.take(4, "a number"), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8, "a number"), "little")

    def count(self, what: str, *, least: int, most: int) -> int:
        """How many things of at least ``least`` bytes follow."""
        count = self.u64()
        if count > min(most, (self._size - self.position) // least):
            raise damaged(self.path, f"it claims {count} {what} in {self._size} bytes")
        return count

    def text(self, what: str, most: int) -> str:
        length = self.u64()
        if length > most:
            raise damaged(self.path, f"{what} has {length} bytes; at most {most} are allowed")
        raw = self.take(length, what)
        try:
            return _decoded(raw)
        except UnicodeDecodeError as error:
            raise damaged(self.path, f"{what} is not UTF-8: {shorten(raw)}") from error


def _decoded(raw: bytes) -> str:
    """UTF-8, a piece at a time: of what may be none, Python sets aside four bytes for each byte."""
    if len(raw) <= PIECE:
        return raw.decode("utf-8")
    decode = getincrementaldecoder("utf-8")().decode
    pieces = [decode(raw[at : at + PIECE]) for at in range(0, len(raw), PIECE)]
    return "".join([*pieces, decode(b"", final=True)])


def _value(cursor: _Cursor, kind: int, key: str) -> Value:
    what = f"the value of {shorten(key)}"
    if kind == _STRING:
        return cursor.text(what, MAX_TEXT)
    if kind != _ARRAY:
        number: int | float | bool = _numbers(cursor, kind, 1, what)[0].item()
        return number
    kind = cursor.u32()
    if kind == _STRING:
        count = cursor.count(f"strings in {shorten(key)}", least=8, most=MAX_ITEMS)
        return [cursor.text(what, MAX_TEXT) for _ in range(count)]
    if kind == _ARRAY:
        raise damaged(cursor.path, f"{what} is an array of arrays")
    count = cursor.count(f"numbers in {shorten(key)}", least=1, most=MAX_ITEMS)
    return _numbers(cursor, kind, count, what)


def _numbers(cursor: _Cursor, kind: int, count: int, what: str) -> NDArray[Any]:
    if kind not in _NUMBERS:
        raise damaged(cursor.path, f"{what} is of type {kind}, which the format does not have")
    dtype = np.dtype(_NUMBERS[kind])
    raw = cursor.take(count * dtype.itemsize, what)
    if kind == _BOOL and raw.strip(b"\0\1"):
        raise damaged(cursor.path, f"{what} is neither true nor false")
    return np.frombuffer(raw, dtype)


def _alignment(metadata: dict[str, Value], path: Path) -> int:
    step = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if isinstance(step, bool) or not isinstance(step, int) or step < 1 or step & (step - 1):
        raise damaged(path, f"general.alignment is {shorten(step)}, not a power of two")
    return step


def _info(cursor: _Cursor, path: Path) -> tuple[str, TensorEntry]:
    """One tensor; its offset still counts from the beginning of the data."""
    name = cursor.text("a tensor's name", MAX_NAME)
    dims = cursor.u32()
    if not 1 <= dims <= MAX_DIMS:
        raise damaged(path, f"{shorten(name)} has {dims} dimensions")
    # The innermost extent comes first.
    shape = tuple(cursor.u64() for _ in range(dims))[::-1]
    if not all(1 <= extent <= MAX_EXTENT for extent in shape):
        raise damaged(path, f"{shorten(name)} has shape {shorten(list(shape))}")
    kind = cursor.u32()
    if kind not in TYPES:
        raise _unknown(name, kind, path)
    block = TYPES[kind]
    if shape[-1] % block.elements:
        raise damaged(
            path,
            f"{shorten(name)} has rows of {shape[-1]}, which are no whole blocks of {block.name}",
        )
    size = prod(shape) // block.elements * block.bytes
    return name, TensorEntry(path.name, block.name, shape, cursor.u64(), size)


def _unknown(name: str, kind: int, path: Path) -> EdgewiseError:
    if kind in REMOVED:
        what = f"of type {REMOVED[kind]}, which ggml no longer has"
    else:
        what = f"of type {kind}, which is not known"
    return UnsupportedError(
        f"{shorten(name)} in {path.name} is {what}.",
        remedy="Use a file with tensors of the usual types, such as Q8_0, Q6_K or Q4_K.",
        code="unsupported.gguf",
    )


def _place(
    infos: list[tuple[str, TensorEntry]], start: int, step: int, size: int, path: Path
) -> dict[str, TensorEntry]:
    """The tensors where they lie in the file, which begins its data at ``start``."""
    placed: dict[str, TensorEntry] = {}
    expected = 0
    for name, entry in sorted(infos, key=lambda info: info[1].offset):
        if name in placed:
            raise damaged(path, f"{shorten(name)} appears twice")
        if entry.offset != expected:
            raise damaged(path, f"{shorten(name)} begins at {entry.offset}, not at {expected}")
        end = start + entry.offset + entry.bytes
        if end > size:
            raise damaged(path, f"{shorten(name)} ends at byte {end} and the file at {size}")
        placed[name] = TensorEntry(
            entry.file, entry.dtype, entry.shape, start + entry.offset, entry.bytes
        )
        expected = -(-(entry.offset + entry.bytes) // step) * step
    return placed
