"""Registers that are written once, named instead of stored: less text, and less to compile.

Kernels keep values in arrays of one element, because TVM's analyzers take in again what is bound
wherever it is used. Behind the last of them a name will do, and drivers in software compile a name
in a fraction of the time that an array takes.
"""

from __future__ import annotations

from collections import Counter

import tvm_ffi
from tvm.ir import Expr, TensorLoad
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Buffer,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    While,
)

MARK = "once"
"""What `marked` calls registers, with a number behind it where there are several."""


def named(function: PrimFunc) -> PrimFunc:
    """``function`` with a binding in place of every register that `_once` finds.

    For code generators only: no pass may come after it.
    """
    registers = {buffer: Var(buffer.name, buffer.dtype) for buffer in _once(function)}

    def bind(statement: BufferStore) -> Stmt:
        if statement.buffer in registers:
            return Bind(registers[statement.buffer], statement.value)
        return statement

    def name(load: TensorLoad) -> Expr:
        return registers.get(load.source, load)

    def without(sequence: SeqStmt) -> Stmt:
        left: list[Stmt] = []
        for one in sequence.seq:
            # What is bound holds to the end of its own sequence, and not beyond.
            inner = one.seq if isinstance(one, SeqStmt) else (one,)
            left += [
                stmt
                for stmt in inner
                if not (isinstance(stmt, AllocBuffer) and stmt.buffer in registers)
            ]
        return left[0] if len(left) == 1 else SeqStmt(left)

    body = tvm_ffi.structural_map(
        function.body, [(BufferStore, bind), (TensorLoad, name), (SeqStmt, without)]
    )
    return function.with_body(body)


def marked(function: PrimFunc) -> PrimFunc:
    """``function`` with the registers that `_once` finds under the name `MARK`.

    For TVM's printers, whose passes follow bindings into bindings: a kernel that has hundreds took
    them two seconds. Their text is mended instead.
    """
    registers = {buffer: Var(MARK, buffer.ty) for buffer in _once(function)}

    def rename(variable: Var) -> Var:
        return registers.get(variable, variable)

    return function.with_body(tvm_ffi.structural_map(function.body, (Var, rename)))


def _once(function: PrimFunc) -> set[Buffer]:
    """The local arrays of one element that are written once, and read only where that surely came
    before."""
    registers: set[Buffer] = set()
    stores: Counter[Buffer] = Counter()

    def allocated(statement: AllocBuffer) -> None:
        buffer = statement.buffer
        if buffer.scope() == "local" and [int(size) for size in buffer.shape] == [1]:
            registers.add(buffer)

    def stored(statement: BufferStore) -> None:
        stores[statement.buffer] += 1

    tvm_ffi.structural_walk(function.body, [(AllocBuffer, allocated), (BufferStore, stored)])
    once = {buffer for buffer in registers if stores[buffer] == 1}
    return once - _early(function.body, once)


def _early(body: Stmt, registers: set[Buffer]) -> set[Buffer]:
    """Those that are read where they may not have been written, or not in this turn of a loop."""
    found: set[Buffer] = set()

    def read(node: Stmt | Expr, written: set[Buffer]) -> None:
        def note(load: TensorLoad) -> None:
            if load.source in registers and load.source not in written:
                found.add(load.source)

        tvm_ffi.structural_walk(node, (TensorLoad, note))

    def scan(statement: Stmt, written: set[Buffer]) -> None:
        if isinstance(statement, SeqStmt):
            for one in statement.seq:
                scan(one, written)
        elif isinstance(statement, BufferStore):
            read(statement, written)
            written.add(statement.buffer)
        elif isinstance(statement, IfThenElse):
            read(statement.condition, written)
            scan(statement.then_case, set(written))
            if statement.else_case is not None:
                scan(statement.else_case, set(written))
        elif isinstance(statement, For):
            read(statement.min, written)
            read(statement.extent, written)
            scan(statement.body, set(written))
        elif isinstance(statement, While):
            read(statement.condition, written)
            scan(statement.body, set(written))
        elif isinstance(statement, AttrStmt):
            read(statement.value, written)
            scan(statement.body, written)
        else:
            read(statement, written)

    scan(body, set())
    return found
