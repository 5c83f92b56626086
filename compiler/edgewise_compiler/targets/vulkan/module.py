"""One SPIR-V module as it is written: its sections, and what is in each of them once.

https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html, 2.4 has the order of sections.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from edgewise_compiler.targets.vulkan import opcodes as spv
from edgewise_compiler.targets.vulkan.opcodes import OPCODES
from edgewise_runtime.errors import CompileError

_DTYPE = re.compile(r"(bool|int32|uint32|float32|float16|int64)(?:x([24]))?")


class Kind(NamedTuple):
    """The type of a value: ``bool``, ``int32``, ``uint32``, ``float32`` or ``float16``, and how
    many lanes it has."""

    scalar: str
    lanes: int = 1

    @property
    def is_float(self) -> bool:
        """Whether it is made of floats."""
        return self.scalar in ("float32", "float16")

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory."""
        return self.lanes * (2 if self.scalar == "float16" else 4)


class Value(NamedTuple):
    """A result of an instruction, or a constant."""

    id: int
    kind: Kind


BOOL, I32, U32 = Kind("bool"), Kind("int32"), Kind("uint32")


@lru_cache(maxsize=64)
def kind_of(dtype: str) -> Kind:
    """The kind of a TIR dtype.

    Indices that TIR counts in 64 bits fit in 32, see `kernels.indices`, and are computed so.

    Raises:
        CompileError: no kernel may compute in it.
    """
    match = _DTYPE.fullmatch(dtype)
    if match is None:
        raise CompileError(
            f"SPIR-V kernels do not compute in {dtype!r}.",
            remedy="They have bool, int32, uint32, float32 and float16, of 1, 2 or 4 lanes.",
            code="compile.dtype",
        )
    scalar = "int32" if match[1] == "int64" else match[1]
    return Kind(scalar, int(match[2] or 1))


class Module:
    """Types, constants, variables and decorations of a module, and its ids."""

    def __init__(self) -> None:
        self.bound = 1
        self.constants: dict[int, int] = {}
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._capabilities = {"Shader"}
        self._once: dict[tuple[object, ...], int] = {}
        self._kinds: dict[Kind, int] = {}
        self.extended = self.new()

    def new(self) -> int:
        """An id that nothing has."""
        self.bound += 1
        return self.bound - 1

    def need(self, *capabilities: str) -> None:
        """Say that the module needs these of a device."""
        self._capabilities.update(capabilities)

    def decorate(self, target: int, *words: int) -> None:
        """Decorate an id."""
        self._decorations += (len(words) + 2 << 16 | OPCODES["Decorate"], target, *words)

    def type(self, name: str, *words: int) -> int:
        """The type that an instruction makes of these words."""
        return self._declared((name, *words), name, words)

    def kind(self, kind: Kind) -> int:
        """The type of values of a kind."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = self._kind(kind)
        return found

    def _kind(self, kind: Kind) -> int:
        if kind.lanes > 1:
            return self.type("TypeVector", self.kind(Kind(kind.scalar)), kind.lanes)
        match kind.scalar:
            case "bool":
                return self.type("TypeBool")
            case "float16":
                self.need("Float16")
                return self.type("TypeFloat", 16)
            case "float32":
                return self.type("TypeFloat", 32)
        return self.type("TypeInt", 32, int(kind.scalar == "int32"))

    def integer(self, value: int, kind: Kind = U32) -> int:
        """A constant of 32 bits; `constants` tells its value."""
        bits = value & 0xFFFFFFFF
        made = self._constant(("Constant", kind, bits), "Constant", self.kind(kind), bits)
        self.constants[made] = bits - (1 << 32) if kind == I32 and bits >> 31 else bits
        return made

    def boolean(self, value: bool) -> int:
        """A truth value."""
        name = "ConstantTrue" if value else "ConstantFalse"
        return self._constant((name,), name, self.kind(BOOL))

    def number(self, value: float, kind: Kind) -> int:
        """A float, rounded to its kind."""
        with np.errstate(over="ignore"):
            raw = np.dtype(kind.scalar).type(value).tobytes()
        (bits,) = struct.unpack("<I", raw.ljust(4, b"\0"))
        return self._constant(("Constant", kind, bits), "Constant", self.kind(kind), bits)

    def composite(self, kind: Kind, parts: Sequence[int]) -> int:
        """A vector of constants."""
        key = ("ConstantComposite", kind, *parts)
        return self._constant(key, "ConstantComposite", self.kind(kind), *parts)

    def is_constant(self, value: int) -> bool:
        """Whether an id is a constant's."""
        return ("is constant", value) in self._once

    def undefined(self, kind: Kind) -> int:
        """A value that nothing gave one."""
        key = ("Undef", kind)
        if key not in self._once:
            self._once[key] = self._result("Undef", self.kind(kind))
        return self._once[key]

    def array(self, element: int, count: int) -> int:
        """An array in memory that has no layout."""
        return self.type("TypeArray", element, self.integer(count))

    def block(self, kind: Kind) -> int:
        """The structure of a storage buffer of such elements, as many as it has room for."""
        key = ("block", kind)
        if key not in self._once:
            if kind.scalar == "float16":
                self.need("StorageBuffer16BitAccess")
            element, array, made = self.kind(kind), self.new(), self.new()
            self._add("TypeRuntimeArray", array, element)
            self._add("TypeStruct", made, array)
            self.decorate(array, spv.ARRAY_STRIDE, kind.bytes)
            self.decorate(made, spv.BLOCK)
            self._decorations += (5 << 16 | OPCODES["MemberDecorate"], made, 0, spv.OFFSET, 0)
            self._once[key] = made
        return self._once[key]

    def variable(self, storage: int, type_: int) -> int:
        """A variable outside of functions."""
        return self._result("Variable", self.type("TypePointer", storage, type_), storage)

    def assemble(
        self,
        entry: str,
        interface: Sequence[int],
        threads: tuple[int, int, int],
        variables: Sequence[int],
        body: Sequence[int],
        start: int,
    ) -> bytes:
        """The module with one function, which is its entry point.

        Args:
            interface: variables that the entry point is given.
            threads: of a workgroup.
            variables: words that declare the function's variables.
            body: words of its blocks behind the first label, up to the return.
            start: the first label.
        """
        void, function = self.type("TypeVoid"), self.new()
        signature = self.type("TypeFunction", void)
        head: list[int] = []

        def put(name: str, *words: int) -> None:
            head.extend((len(words) + 1 << 16 | OPCODES[name], *words))

        for capability in sorted(self._capabilities):
            put("Capability", spv.CAPABILITIES[capability])
        for extension in sorted(spv.EXTENSIONS[c] for c in self._capabilities & {*spv.EXTENSIONS}):
            put("Extension", *_text(extension))
        put("ExtInstImport", self.extended, *_text(spv.GLSL))
        put("MemoryModel", spv.LOGICAL, spv.GLSL450)
        put("EntryPoint", spv.GL_COMPUTE, function, *_text(entry), *interface)
        put("ExecutionMode", function, spv.LOCAL_SIZE, *threads)
        head += (*self._decorations, *self._globals)
        put("Function", void, function, 0, signature)
        put("Label", start)
        head += (*variables, *body)
        put("Return")
        put("FunctionEnd")
        words = [spv.MAGIC, spv.VERSION, 0, self.bound, 0, *head]
        return struct.pack(f"<{len(words)}I", *words)

    def _add(self, name: str, *words: int) -> None:
        self._globals += (len(words) + 1 << 16 | OPCODES[name], *words)

    def _result(self, name: str, type_: int, *words: int) -> int:
        made = self.new()
        self._add(name, type_, made, *words)
        return made

    def _declared(self, key: tuple[object, ...], name: str, words: Sequence[int]) -> int:
        found = self._once.get(key)
        if found is None:
            found = self._once[key] = self.new()
            self._add(name, found, *words)
        return found

    def _constant(self, key: tuple[object, ...], name: str, type_: int, *words: int) -> int:
        found = self._once.get(key)
        if found is None:
            found = self._once[key] = self._result(name, type_, *words)
            self._once["is constant", found] = found
        return found


def _text(text: str) -> tuple[int, ...]:
    """The words of a text, which ends in a zero."""
    data = text.encode() + b"\0"
    return struct.unpack(f"<{(len(data) + 3) // 4}I", data.ljust(-(-len(data) // 4) * 4, b"\0"))
