"""What a SPIR-V module may be before a driver sees it, and what it asks of a device.

Drivers are not made for modules that are wrong: they end the process, or compute something. What a
plan says of a kernel, and what launches are ordered by, is therefore compared with the module.
Opcodes and enumerants are those of the SPIR-V specification
(https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgewise_runtime.errors import BundleError

MAGIC = 0x07230203
NEWEST = (1, 5)
"""Of SPIR-V, what Vulkan 1.2 takes."""

MAX_WORDS = 1 << 22
MAX_ID = 1 << 20

(
    ENTRY_POINT,
    EXECUTION_MODE,
    CAPABILITY,
    TYPE_INT,
    TYPE_FLOAT,
    TYPE_VECTOR,
    TYPE_ARRAY,
    TYPE_STRUCT,
    TYPE_POINTER,
    CONSTANT,
    VARIABLE,
    DECORATE,
    MEMBER_DECORATE,
) = (15, 16, 17, 21, 22, 23, 28, 30, 32, 43, 59, 71, 72)
NON_WRITABLE, BINDING, DESCRIPTOR_SET = 24, 33, 34
GL_COMPUTE, LOCAL_SIZE = 5, 17
WORKGROUP, PUSH_CONSTANT, STORAGE_BUFFER = 4, 9, 12
_RESOURCES = {0: "a uniform constant", 2: "a uniform buffer", PUSH_CONSTANT: "push constants"}

CAPABILITIES: Mapping[int, str] = {
    1: "",
    9: "shaderFloat16",
    11: "shaderInt64",
    22: "shaderInt16",
    39: "shaderInt8",
    61: "subgroup basic",
    62: "subgroup vote",
    63: "subgroup arithmetic",
    64: "subgroup ballot",
    65: "subgroup shuffle",
    66: "subgroup shuffle relative",
    4433: "storageBuffer16BitAccess",
    4448: "storageBuffer8BitAccess",
    4466: "shaderSignedZeroInfNanPreserve",
    4467: "shaderRoundingModeRTE",
    5345: "vulkanMemoryModel",
    6016: "shaderIntegerDotProduct",
    6017: "shaderIntegerDotProduct",
    6018: "shaderIntegerDotProduct",
    6019: "shaderIntegerDotProduct",
}
"""What modules may declare, and what of a device each asks for, see `adapter`. Empty for what all
have."""


@dataclass(frozen=True)
class Module:
    """A module that was looked at.

    Attributes:
        code: its bytes.
        entry: the function to launch.
        wants: what a device must have.
        threads: of a workgroup, in x, y and z.
        shared: bytes of a workgroup's memory.
    """

    code: bytes
    entry: str
    wants: frozenset[str]
    threads: tuple[int, int, int]
    shared: int


def check_module(path: str, data: bytes, entry: str, writes: Sequence[bool]) -> Module:
    """Look at a module's declarations.

    Args:
        entry: the function that the plan launches.
        writes: of each argument, whether the plan says that the kernel writes it.

    Raises:
        BundleError: ``bundle.shader`` for one that is no module or not for this launch: another
            entry point, buffers that the plan does not bind, or a write that it does not know of.
    """
    if len(data) % 4 or len(data) < 20 or len(data) > 4 * MAX_WORDS:
        raise _refusal(path, f"has {len(data):,} bytes, which is no SPIR-V")
    words = np.frombuffer(data, "<u4")
    version = int(words[1]) >> 16, int(words[1]) >> 8 & 255
    if words[0] != MAGIC or words[1] & 0xFF0000FF or not (1, 0) <= version <= NEWEST:
        raise _refusal(path, f"does not begin as SPIR-V up to {NEWEST[0]}.{NEWEST[1]} does")
    if words[3] > MAX_ID:
        raise _refusal(path, f"has {int(words[3]):,} ids, more than {MAX_ID:,}")
    reader = _Reader(path, words[5:].tolist())
    reader.read(entry)
    threads = reader.threads
    if threads is None:
        raise _refusal(path, f"has no workgroup size for {entry!r}")
    reader.check_bindings(writes)
    return Module(data, entry, frozenset(reader.wants - {""}), threads, reader.shared())


class _Reader:
    """Reads the declarations of a module."""

    def __init__(self, path: str, words: list[int]) -> None:
        self.path = path
        self.words = words
        self.wants: set[str] = set()
        self.threads: tuple[int, int, int] | None = None
        self._function: int | None = None
        self._types: dict[int, tuple[int, list[int]]] = {}
        self._constants: dict[int, int] = {}
        self._variables: dict[int, tuple[int, int]] = {}
        self._decorated: dict[int, dict[int, int]] = {}
        self._members: dict[int, set[int]] = {}

    def _instructions(self) -> Iterator[tuple[int, list[int]]]:
        at = 0
        while at < len(self.words):
            count = self.words[at] >> 16
            if not 1 <= count <= len(self.words) - at:
                raise _refusal(self.path, f"is cut or damaged at word {at + 5}")
            yield self.words[at] & 0xFFFF, self.words[at + 1 : at + count]
            at += count

    def read(self, entry: str) -> None:
        try:
            for code, operands in self._instructions():
                self._take(code, operands, entry)
        except IndexError as cause:
            raise _refusal(self.path, "has an instruction without all its operands") from cause
        if self._function is None:
            raise _refusal(self.path, f"has no entry point {entry!r}")

    def _take(self, code: int, operands: list[int], entry: str) -> None:
        if code == CAPABILITY:
            wanted = CAPABILITIES.get(operands[0])
            if wanted is None:
                raise _refusal(self.path, f"asks for the capability {operands[0]}")
            self.wants.add(wanted)
        elif code == ENTRY_POINT:
            model, function = operands[0], operands[1]
            if model == GL_COMPUTE and _text(operands[2:]) == entry:
                self._function = function
        elif code == EXECUTION_MODE:
            if operands[0] == self._function and operands[1] == LOCAL_SIZE:
                self.threads = operands[2], operands[3], operands[4]
        elif code in (TYPE_INT, TYPE_FLOAT, TYPE_VECTOR, TYPE_ARRAY, TYPE_STRUCT, TYPE_POINTER):
            self._types[operands[0]] = code, operands[1:]
        elif code == CONSTANT:
            self._constants[operands[1]] = operands[2]
        elif code == VARIABLE:
            self._variables[operands[1]] = operands[0], operands[2]
        elif code == DECORATE:
            self._decorated.setdefault(operands[0], {})[operands[1]] = [*operands, 0][2]
        elif code == MEMBER_DECORATE and operands[2] == NON_WRITABLE:
            self._members.setdefault(operands[0], set()).add(operands[1])

    def check_bindings(self, writes: Sequence[bool]) -> None:
        """Refuse what is not one of the launch's buffers, or is written where no plan says so."""
        for variable, (pointer, storage) in self._variables.items():
            if storage in _RESOURCES:
                raise _refusal(self.path, f"has {_RESOURCES[storage]}")
            if storage != STORAGE_BUFFER:
                continue
            decorated = self._decorated.get(variable, {})
            place, group = decorated.get(BINDING), decorated.get(DESCRIPTOR_SET)
            if group != 0 or place is None or place >= len(writes):
                raise _refusal(
                    self.path,
                    f"binds buffer {place} of set {group}, and the plan binds {len(writes)} of set "
                    "0",
                )
            if not writes[place] and not self._read_only(variable, pointer):
                raise _refusal(self.path, f"may write buffer {place}, which the plan has as read")

    def _read_only(self, variable: int, pointer: int) -> bool:
        if NON_WRITABLE in self._decorated.get(variable, {}):
            return True
        _, operands = self._types.get(pointer, (0, []))
        structure = operands[1] if len(operands) == 2 else 0
        code, members = self._types.get(structure, (0, []))
        marked = self._members.get(structure, set())
        return code == TYPE_STRUCT and marked == set(range(len(members)))

    def shared(self) -> int:
        """Bytes of all variables of a workgroup."""
        return sum(
            self._bytes(self._types[pointer][1][1], 8)
            for pointer, storage in self._variables.values()
            if storage == WORKGROUP and pointer in self._types
        )

    def _bytes(self, kind: int, depth: int) -> int:
        code, operands = self._types.get(kind, (0, []))
        if depth and code in (TYPE_INT, TYPE_FLOAT) and operands:
            return operands[0] // 8
        if depth and code == TYPE_VECTOR and len(operands) == 2:
            return operands[1] * self._bytes(operands[0], depth - 1)
        if depth and code == TYPE_ARRAY and len(operands) == 2:
            return self._constants.get(operands[1], 0) * self._bytes(operands[0], depth - 1)
        raise _refusal(self.path, "has shared memory that is no array of numbers or vectors")


def _text(words: list[int]) -> str:
    """The string that words begin with; empty for one that is none."""
    data = np.array(words, "<u4").tobytes()
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _refusal(path: str, what: str) -> BundleError:
    return BundleError(
        f"The module {path} {what}.",
        remedy="Compile the model again with this version of edgewise.",
        code="bundle.shader",
    )
