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


def named(function: PrimFunc) -> PrimFunc:
    """``function`` with a binding in place of every local array of one element that is written once
    and read only where that surely came before.

    For code generators only: no pass may come after it.
    """
    registers: dict[Buffer, Var] = {}
    stores: Counter[Buffer] = Counter()

    def allocated(statement: AllocBuffer) -> None:
        buffer = statement.buffer
        if buffer.scope() == "local" and [int(size) for size in buffer.shape] == [1]:
            registers[buffer] = Var(buffer.name, buffer.dtype)

    def stored(statement: BufferStore) -> None:
        stores[statement.buffer] += 1

    tvm_ffi.structural_walk(function.body, [(AllocBuffer, allocated), (BufferStore, stored)])
    once = {buffer for buffer in registers if stores[buffer] == 1}
    once -= _early(function.body, once)

    def bind(statement: BufferStore) -> Stmt:
        if statement.buffer in once:
            return Bind(registers[statement.buffer], statement.value)
        return statement

    def name(load: TensorLoad) -> Expr:
        return registers[load.source] if load.source in once else load

    def without(sequence: SeqStmt) -> Stmt:
        left: list[Stmt] = []
        for one in sequence.seq:
            # What is bound holds to the end of its own sequence, and not beyond.
            inner = one.seq if isinstance(one, SeqStmt) else (one,)
            left += [
                stmt
                for stmt in inner
                if not (isinstance(stmt, AllocBuffer) and stmt.buffer in once)
            ]
        return left[0] if len(left) == 1 else SeqStmt(left)

    body = tvm_ffi.structural_map(
        function.body, [(BufferStore, bind), (TensorLoad, name), (SeqStmt, without)]
    )
    return function.with_body(body)


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
