"""TIR statements to instructions, and a kernel to its module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tvm_ffi
from tvm.ir import Call
from tvm.s_tir.stmt import SBlockRealize
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    Bind,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)

from edgewise_compiler.kernels.gpu.operations import PREFIX
from edgewise_compiler.targets.gpu.spelling import operation_of
from edgewise_compiler.targets.vulkan import opcodes as spv
from edgewise_compiler.targets.vulkan.arithmetic import Arithmetic
from edgewise_compiler.targets.vulkan.expressions import Expressions
from edgewise_compiler.targets.vulkan.function import Function
from edgewise_compiler.targets.vulkan.memory import Memory, Register
from edgewise_compiler.targets.vulkan.module import U32, Kind, Module, Value
from edgewise_runtime.errors import CompileError


def assemble(kernel: PrimFunc, entry: str, threads: tuple[int, int, int]) -> bytes:
    """The module of a kernel.

    Args:
        entry: the name of its entry point.
        threads: of a workgroup.

    Raises:
        CompileError: it has what SPIR-V kernels do not.
    """
    writer = Statements(kernel)
    writer.write(kernel.body)
    return writer.function.assemble(entry, writer.interface, threads)


class Statements:
    """A kernel's function as its statements are written into it."""

    def __init__(self, kernel: PrimFunc) -> None:
        self.function = Function(Module())
        self.arithmetic = Arithmetic(self.function)
        self.memory = Memory(self.function, kernel.body)
        self.expressions = Expressions(self.arithmetic, self.memory)
        self.interface: list[int] = []
        self._threads: dict[str, int] = {}
        coherent = _waits_for_buffers(kernel)
        for binding, buffer in enumerate(kernel.params):
            self.memory.argument(buffer, binding, coherent)

    def write(self, statement: Stmt) -> None:
        """Write the instructions of a statement."""
        write = _WRITE.get(type(statement))
        if write is None:
            raise CompileError(
                f"SPIR-V kernels have no statement {type(statement).__name__}.",
                code="compile.operation",
            )
        write(self, statement)

    def _sequence(self, node: SeqStmt) -> None:
        for statement in node.seq:
            self.write(statement)

    def _block(self, node: SBlockRealize) -> None:
        for buffer in node.block.alloc_buffers:
            self.memory.allocate(buffer)
        self.write(node.block.body)

    def _allocate(self, node: AllocBuffer) -> None:
        self.memory.allocate(node.buffer)

    def _attribute(self, node: AttrStmt) -> None:
        if node.attr_key == "thread_extent":
            place, axis = str(node.node.thread_tag).split(".")
            extent = int(node.value)
            found = self._thread(place, "xyz".index(axis)) if extent > 1 else None
            value = self.arithmetic.constant(0) if found is None else found
            self.expressions.names[node.node.var] = self.arithmetic.counted(value)
        self.write(node.body)

    def _thread(self, place: str, axis: int) -> Value:
        """A coordinate of the workgroup or of the thread in it, int32."""
        module, function = self.function.module, self.function
        if place not in self._threads:
            made = module.variable(spv.INPUT, module.type("TypeVector", module.kind(U32), 3))
            module.decorate(made, spv.BUILT_IN, spv.BUILT_INS[place])
            self.interface.append(made)
            self._threads[place] = made
        all_of_it = function.pure("Load", Kind("uint32", 3), self._threads[place])
        one = function.pure("CompositeExtract", U32, all_of_it.id, axis)
        return self.arithmetic.bits(one, "int32")

    def _bind(self, node: Bind) -> None:
        self.expressions.names[node.var] = self.expressions.value(node.value)

    def _evaluate(self, node: Evaluate) -> None:
        self.expressions.value(node.value)

    def _store(self, node: BufferStore) -> None:
        value = self.expressions.value(node.value)
        register = self.memory.register(node.buffer, node.indices)
        if register is not None:
            self.memory.registers[register] = value
            return
        place = self.memory.places[node.buffer]
        at = self.expressions.place(node.indices, place.shape)
        self.function.effect("Store", self.memory.pointer(place, at), value.id)

    def _choice(self, node: IfThenElse) -> None:
        function, condition = self.function, self.expressions.value(node.condition)
        begun, then, end = function.block, function.module.new(), function.module.new()
        otherwise = end if node.else_case is None else function.module.new()
        function.effect("SelectionMerge", end, 0)
        function.effect("BranchConditional", condition.id, then, otherwise)
        before = self.memory.registers
        after, last = self._side(then, node.then_case, end)
        other, final = before, begun
        if node.else_case is not None:
            other, final = self._side(otherwise, node.else_case, end)
        function.label(end)
        for register in dict.fromkeys([*after, *other]):
            a, b = self._held(after, register), self._held(other, register)
            if a != b:
                a = function.phi(a.kind, a.id, last, b.id, final)
            self.memory.registers[register] = a

    def _side(self, label: int, body: Stmt, end: int) -> tuple[dict[Register, Value], int]:
        """What is in registers at the end of a side of a choice, and the block in which it ends."""
        function = self.function
        function.label(label)
        with self.memory.apart() as after, function.scope():
            self.write(body)
        last = function.block
        function.effect("Branch", end)
        return after, last

    def _held(self, registers: Mapping[Register, Value], register: Register) -> Value:
        return registers.get(register) or self.memory.undefined(register)

    def _for(self, node: For) -> None:
        if node.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or node.step is not None:
            raise CompileError(
                "SPIR-V kernels have loops of step 1 only, serial and unrolled.",
                code="compile.operation",
            )
        names, arithmetic = self.expressions.names, self.arithmetic
        first, extent = self.expressions.value(node.min), self.expressions.value(node.extent)
        known = self.function.module.constants
        start, turns = known.get(first.id), known.get(extent.id)
        if turns == 1:
            names[node.loop_var] = first
            self.write(node.body)
        elif node.kind == ForKind.UNROLLED and start is not None and turns is not None:
            for at in range(start, start + turns):
                names[node.loop_var] = arithmetic.constant(at, first.kind)
                self.write(node.body)
        else:
            stop = arithmetic.binary("Add", first, extent)
            with self._repeated(node.body) as loop:
                turn, back = self.function.open_phi(first.kind, first.id, loop.before)
                if start is not None and start >= 0:
                    arithmetic.counted(turn)
                names[node.loop_var] = turn
                loop.enter(arithmetic.compare("LT", turn, stop))
                self.write(node.body)
                loop.turn()
                one = arithmetic.constant(1, first.kind)
                back += (arithmetic.binary("Add", turn, one).id, loop.next)

    def _while(self, node: While) -> None:
        with self._repeated(node.body) as loop:
            loop.test()
            loop.enter(self.expressions.value(node.condition))
            self.write(node.body)
            loop.turn()

    @contextmanager
    def _repeated(self, body: Stmt) -> Iterator[Loop]:
        """A loop around what is written inside; behind it registers are what they were at its head.

        Args:
            body: what stores to registers in it.
        """
        memory, function = self.memory, self.function
        loop = Loop(function)
        back = {}
        for register in memory.written(body):
            first = self._held(memory.registers, register)
            memory.registers[register], back[register] = function.open_phi(
                first.kind, first.id, loop.before
            )
        with memory.apart() as after, function.scope():
            yield loop
        for register, words in back.items():
            words += (after[register].id, loop.next)
        loop.leave()


class Loop:
    """The blocks of a loop: its head, what it repeats, where it turns, and what comes behind."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.before = function.block
        self.head, self.body, self.next, self.end = (function.module.new() for _ in range(4))
        self._merged = False
        function.effect("Branch", self.head)
        function.label(self.head)

    def test(self) -> None:
        """End the head, for a condition that takes blocks of its own."""
        function, label = self.function, self.function.module.new()
        self._merge()
        function.effect("Branch", label)
        function.label(label)

    def enter(self, condition: Value) -> None:
        """Begin what is repeated while a condition holds."""
        self._merge()
        self.function.effect("BranchConditional", condition.id, self.body, self.end)
        self.function.label(self.body)

    def turn(self) -> None:
        """Begin the block that goes back to the head."""
        self.function.effect("Branch", self.next)
        self.function.label(self.next)

    def leave(self) -> None:
        """Go back, and begin the block behind the loop."""
        self.function.effect("Branch", self.head)
        self.function.label(self.end)

    def _merge(self) -> None:
        if not self._merged:
            self.function.effect("LoopMerge", self.end, self.next, spv.DONT_UNROLL)
            self._merged = True


Write = Callable[[Statements, Any], None]

_WRITE: Mapping[type, Write] = {
    SeqStmt: Statements._sequence,
    SBlockRealize: Statements._block,
    AllocBuffer: Statements._allocate,
    AttrStmt: Statements._attribute,
    Bind: Statements._bind,
    Evaluate: Statements._evaluate,
    BufferStore: Statements._store,
    IfThenElse: Statements._choice,
    For: Statements._for,
    While: Statements._while,
}


def _waits_for_buffers(kernel: PrimFunc) -> bool:
    """Whether its threads wait for what others store to buffers."""
    found: list[Call] = []

    def note(node: Call) -> None:
        if operation_of(node) == f"{PREFIX}buffer_barrier":
            found.append(node)

    tvm_ffi.structural_walk(kernel.body, (Call, note))
    return bool(found)
