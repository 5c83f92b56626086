"""Fatbins: one kernel's machine code for several of NVIDIA's architectures, and its PTX.

NVIDIA documents neither the container nor the sections read here. They are as nvFatbin and NVRTC of
CUDA 12 write them, and a test compares what is read with what ptxas reports. Drivers choose among
the images; this says which they will choose from, and what a kernel takes of a processor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from edgewise_runtime.errors import BundleError

MAGIC = 0xBA55ED50

_HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes after it
_ENTRY = struct.Struct("<HHIQ8xHHI")  # kind, version, header, payload; PTX version; architecture
_KINDS = {1: "ptx", 2: "cubin"}

_ELF = b"\x7fELF\x02\x01\x01"  # 64 bits, the low byte first
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info …
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_SYMBOLS = 2  # a section's type
_INFO = struct.Struct("<BBH")  # format, attribute, bytes (or the value itself)
_SIZED = 4  # the format whose value follows
_FRAME, _REGISTERS, _THREADS = 0x11, 0x2F, 0x05

_RESERVED = 1024
"""Bytes of shared memory that sections count from `_RESERVING` on, and kernels do not have."""
_RESERVING = 90


@dataclass(frozen=True)
class Image:
    """One image of a fatbin.

    Attributes:
        kind: ``cubin`` or ``ptx``; PTX may be compressed.
        arch: of compute capability major * 10 + minor, which it was made for.
    """

    kind: str
    arch: int
    data: bytes

    def runs_on(self, arch: int) -> bool:
        """Whether a GPU of an architecture can run it: code of its own major version, or PTX."""
        same = self.kind == "ptx" or self.arch // 10 == arch // 10
        return same and self.arch <= arch

    def __str__(self) -> str:
        return f"sm_{self.arch}" if self.kind == "cubin" else f"PTX for {self.arch}"


@dataclass(frozen=True)
class KernelUse:
    """What one kernel of a cubin takes.

    Attributes:
        threads: of a block in x, y and z, as ``__launch_bounds__`` says.
        registers: of a thread.
        shared: bytes of a block's shared memory.
        stack: bytes of a thread in memory: what does not fit registers, and arrays.
    """

    threads: tuple[int, int, int]
    registers: int
    shared: int
    stack: int


def read_images(path: str, data: bytes) -> tuple[Image, ...]:
    """The images of a fatbin, in their order.

    Raises:
        BundleError: ``bundle.fatbin`` for what is none.
    """
    try:
        magic, _, header, rest = _HEADER.unpack_from(data)
        if magic != MAGIC or header < _HEADER.size or header + rest != len(data):
            raise _refusal(path)
        return tuple(_images(path, data, header))
    except struct.error as cause:
        raise _refusal(path) from cause


def _images(path: str, data: bytes, at: int) -> Iterator[Image]:
    while at < len(data):
        kind, _, header, size, _, _, arch = _ENTRY.unpack_from(data, at)
        start = at + header
        at = start + size
        if header < _ENTRY.size or at > len(data):
            raise _refusal(path)
        if kind in _KINDS:
            yield Image(_KINDS[kind], arch, data[start:at])


def read_uses(path: str, image: Image) -> dict[str, KernelUse]:
    """What each kernel of a cubin takes, by its entry point.

    Raises:
        BundleError: ``bundle.fatbin`` for what is no cubin.
    """
    try:
        return _uses(path, image)
    except (struct.error, ArithmeticError, LookupError, ValueError) as cause:
        raise _refusal(path) from cause


def _uses(path: str, image: Image) -> dict[str, KernelUse]:
    data = image.data
    if image.kind != "cubin" or not data.startswith(_ELF):
        raise _refusal(path)
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    sections = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    by_name = {_text(data, sections[names], section[0]): section for section in sections}
    if ".nv.info" not in by_name:
        return {}
    (symbols,) = (section for section in sections if section[1] == _SYMBOLS)
    strings = sections[symbols[6]]
    frames: dict[str, int] = {}
    registers: dict[str, int] = {}
    for attribute, value in _attributes(data, by_name[".nv.info"]):
        into = {_FRAME: frames, _REGISTERS: registers}.get(attribute)
        if into is not None:
            index, number = struct.unpack("<II", value)
            symbol = _SYMBOL.unpack_from(data, symbols[4] + index * _SYMBOL.size)
            into[_text(data, strings, symbol[0])] = number
    found = {}
    for name in sorted(registers):
        threads = dict(_attributes(data, by_name[f".nv.info.{name}"]))[_THREADS]
        section = by_name.get(f".nv.shared.{name}")
        reserved = _RESERVED if image.arch >= _RESERVING else 0
        shared = 0 if section is None else section[5] - reserved
        x, y, z = struct.unpack("<III", threads)
        found[name] = KernelUse((x, y, z), registers[name], shared, frames.get(name, 0))
    return found


def _attributes(data: bytes, section: tuple[int, ...]) -> Iterator[tuple[int, bytes]]:
    at, end = section[4], section[4] + section[5]
    while at < end:
        form, attribute, size = _INFO.unpack_from(data, at)
        at += _INFO.size
        if form == _SIZED:
            yield attribute, data[at : at + size]
            at += size


def _text(data: bytes, section: tuple[int, ...], at: int) -> str:
    text = data[section[4] : section[4] + section[5]][at:]
    return text.split(b"\0", 1)[0].decode("ascii")


def _refusal(path: str) -> BundleError:
    return BundleError(
        f"{path} is no fatbin as edgewise writes them.",
        remedy="Compile the model again with this version of edgewise.",
        code="bundle.fatbin",
    )
