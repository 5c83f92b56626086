"""Where a kernel's buffers are: storage buffers, memory of the workgroup, registers.

A local array is registers, named values of which memory knows nothing, as long as every index into
it is a constant. Behind a choice and in a loop they are what came from one side or the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm.ir import TensorLoad
from tvm.tirx import Buffer, BufferStore, IntImm, Stmt

from edgewise_compiler.targets.vulkan import opcodes as spv
from edgewise_compiler.targets.vulkan.function import Function
from edgewise_compiler.targets.vulkan.module import I32, Kind, Value, kind_of

Register = tuple[Buffer, int]


@dataclass(frozen=True)
class Place:
    """A buffer's memory.

    Attributes:
        variable: the id of what holds it.
        storage: the class of that.
        kind: of an element.
        shape: elements in each direction.
        frozen: nothing stores to it while the kernel runs.
    """

    variable: int
    storage: int
    kind: Kind
    shape: tuple[int, ...]
    frozen: bool = False


class Memory:
    """The buffers of a kernel."""

    def __init__(self, function: Function, body: Stmt) -> None:
        self.function = function
        self.places: dict[Buffer, Place] = {}
        self.registers: dict[Register, Value] = {}
        self.stored: set[Buffer] = set()
        self._indexed: set[Buffer] = set()
        self._local: dict[Buffer, tuple[Kind, tuple[int, ...]]] = {}

        def load(node: TensorLoad) -> None:
            if not all(type(index) is IntImm for index in node.indices):
                self._indexed.add(node.source)

        def store(node: BufferStore) -> None:
            self.stored.add(node.buffer)
            if not all(type(index) is IntImm for index in node.indices):
                self._indexed.add(node.buffer)

        tvm_ffi.structural_walk(body, [(TensorLoad, load), (BufferStore, store)])

    def argument(self, buffer: Buffer, binding: int, coherent: bool) -> None:
        """A storage buffer that the kernel is given.

        Args:
            coherent: threads read in it what others stored.
        """
        module, kind = self.function.module, kind_of(str(buffer.dtype))
        made = module.variable(spv.STORAGE_BUFFER, module.block(kind))
        module.decorate(made, spv.DESCRIPTOR_SET, 0)
        module.decorate(made, spv.BINDING, binding)
        module.decorate(made, spv.RESTRICT)
        frozen = buffer not in self.stored
        if frozen:
            module.decorate(made, spv.NON_WRITABLE)
        elif coherent:
            module.decorate(made, spv.COHERENT)
        self.places[buffer] = Place(made, spv.STORAGE_BUFFER, kind, _shape(buffer), frozen)

    def allocate(self, buffer: Buffer) -> None:
        """Memory of the workgroup, or of a thread."""
        kind, shape, module = kind_of(str(buffer.dtype)), _shape(buffer), self.function.module
        array = module.array(module.kind(kind), prod(shape))
        if buffer.scope() == "shared":
            variable, storage = module.variable(spv.WORKGROUP, array), spv.WORKGROUP
        elif buffer in self._indexed:
            variable, storage = self.function.variable(array), spv.FUNCTION
        else:
            self._local[buffer] = kind, shape
            return
        self.places[buffer] = Place(variable, storage, kind, shape)

    def register(self, buffer: Buffer, indices: Sequence[IntImm]) -> Register | None:
        """The register that an element is, None where it is in memory."""
        if buffer not in self._local:
            return None
        _, shape = self._local[buffer]
        at = 0
        for index, extent in zip(indices, shape, strict=True):
            at = at * extent + int(index)
        return buffer, at

    def value(self, register: Register) -> Value:
        """What is in a register."""
        return self.registers.get(register) or self.undefined(register)

    def undefined(self, register: Register) -> Value:
        """What is in a register before anything is stored there."""
        kind, _ = self._local[register[0]]
        return Value(self.function.module.undefined(kind), kind)

    def pointer(self, place: Place, index: Value) -> int:
        """Where an element is, by its place among all of them."""
        zero = (self.function.module.integer(0, I32),) * (place.storage == spv.STORAGE_BUFFER)
        return self.function.pointer(place.storage, place.kind, place.variable, *zero, index.id)

    def written(self, body: Stmt) -> list[Register]:
        """The registers that a statement stores to."""
        found: dict[Register, None] = {}

        def note(node: BufferStore) -> None:
            register = self.register(node.buffer, node.indices)
            if register is not None:
                found[register] = None

        tvm_ffi.structural_walk(body, (BufferStore, note))
        return list(found)

    @contextmanager
    def apart(self) -> Iterator[dict[Register, Value]]:
        """What is stored inside is not in registers behind it, but in what is handed out."""
        before, inside = self.registers, dict(self.registers)
        self.registers = inside
        try:
            yield inside
        finally:
            self.registers = before


def _shape(buffer: Buffer) -> tuple[int, ...]:
    return tuple(int(extent) for extent in buffer.shape)
