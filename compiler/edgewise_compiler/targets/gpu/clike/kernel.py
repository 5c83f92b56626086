"""A lowered kernel as one function in a language that looks like C."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import tvm_ffi
from tvm.ir import Expr
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    While,
)

from edgewise_compiler.kernels.gpu.operations import dtype_of
from edgewise_compiler.targets.gpu.clike.dialect import Dialect, Parameter, Signature
from edgewise_compiler.targets.gpu.clike.expressions import Expressions, bare, is_register

_SERIAL = 0  # of TIR's kinds of loops; those that are unrolled have gone before
_PLACES = {"blockIdx.x": "x", "blockIdx.y": "y", "threadIdx.x": "t"}
_INDENT = "  "

Lines = Iterator[str]


def kernel_text(dialect: Dialect, signature: Signature, lowered: PrimFunc) -> str:
    """The text of a kernel, with what it needs before it.

    Args:
        lowered: what `passes.device_module` made of it; its parameters are pointers.

    Raises:
        CompileError: the language, or this printer, has no word for something in it.
    """
    return _Kernel(dialect, signature, lowered).text()


class _Kernel:
    def __init__(self, dialect: Dialect, signature: Signature, lowered: PrimFunc) -> None:
        self._dialect = dialect
        self._signature = signature
        self._lowered = lowered
        self._write = Expressions(dialect, signature.entry)
        self._counts: dict[str, int] = {}

    def text(self) -> str:
        dialect = self._dialect
        shared = [*self._shared()]
        places = (
            f"{_INDENT}const {dialect.types['int32']} {name} = {place};"
            for name, place in zip(_PLACES.values(), dialect.places, strict=True)
        )
        body = [*self._statement(self._lowered.body, 1)]
        head = dialect.head(dialect, self._signature)
        lines = "\n".join((head, *shared, *places, *body, "}")) + "\n"
        used = (text for word, text in dialect.preludes if re.search(word, lines))
        return "".join((*used, lines))

    def _shared(self) -> Lines:
        """Shared memory, which every language lets stand at the beginning."""
        found: list[Buffer] = []

        def note(statement: AllocBuffer) -> None:
            if statement.buffer.scope() == "shared":
                found.append(statement.buffer)

        tvm_ffi.structural_walk(self._lowered.body, (AllocBuffer, note))
        for buffer in found:
            yield f"{_INDENT}{self._dialect.shared} {self._array(buffer, 's')};"

    def _array(self, buffer: Buffer, kind: str) -> str:
        """The declaration of an array, or of a register."""
        name = self._name(buffer, kind)
        size = "" if is_register(buffer) else f"[{prod(int(extent) for extent in buffer.shape)}]"
        return f"{self._write.type_name(str(buffer.dtype))} {name}{size}"

    def _name(self, variable: Var, kind: str) -> str:
        number = self._counts[kind] = self._counts.get(kind, 0) + 1
        self._write.names[variable] = f"{kind}{number}"
        return f"{kind}{number}"

    def _statement(self, statement: Stmt, depth: int) -> Lines:
        write = _WRITTEN.get(type(statement))
        if write is None:
            raise self._write.refusal(f"TIR's {type(statement).__name__}")
        return write(self, statement, depth)

    def _sequence(self, statement: SeqStmt, depth: int) -> Lines:
        for one in statement.seq:
            yield from self._statement(one, depth)

    def _attribute(self, statement: AttrStmt, depth: int) -> Lines:
        if statement.attr_key != "thread_extent":
            raise self._write.refusal(f"the attribute {statement.attr_key!r}")
        name = _PLACES.get(str(statement.node.thread_tag))
        if name is None:
            raise self._write.refusal(f"{statement.node.thread_tag}")
        self._write.names[statement.node.var] = name
        return self._statement(statement.body, depth)

    def _declare(self, statement: DeclBuffer, depth: int) -> Lines:
        """A buffer over an argument."""
        places = [p for p, v in enumerate(self._lowered.params) if v.same_as(statement.data)]
        if len(places) != 1:
            raise self._write.refusal(f"a buffer {statement.buffer.name!r} of no argument")
        self._write.names[statement.buffer] = self._signature.parameters[places[0]].name
        return iter(())

    def _allocate(self, statement: AllocBuffer, depth: int) -> Lines:
        if statement.buffer.scope() != "shared":
            yield f"{_INDENT * depth}{self._array(statement.buffer, 'r')};"

    def _bind(self, statement: Bind, depth: int) -> Lines:
        value = bare(self._write.text(statement.value))
        kind = self._write.type_name(dtype_of(statement.value))
        yield f"{_INDENT * depth}const {kind} {self._name(statement.var, 'v')} = {value};"

    def _store(self, statement: BufferStore, depth: int) -> Lines:
        element = self._write.element(statement.buffer, statement.indices)
        yield f"{_INDENT * depth}{element} = {bare(self._write.text(statement.value))};"

    def _evaluate(self, statement: Evaluate, depth: int) -> Lines:
        text = bare(self._write.text(statement.value))
        if not text.isdigit():  # TIR's word for nothing is a number
            yield f"{_INDENT * depth}{text};"

    def _condition(self, statement: IfThenElse, depth: int) -> Lines:
        yield f"{_INDENT * depth}if ({bare(self._write.text(statement.condition))}) {{"
        yield from self._statement(statement.then_case, depth + 1)
        if statement.else_case is not None:
            yield f"{_INDENT * depth}}} else {{"
            yield from self._statement(statement.else_case, depth + 1)
        yield f"{_INDENT * depth}}}"

    def _loop(self, statement: For, depth: int) -> Lines:
        if int(statement.kind) != _SERIAL:
            raise self._write.refusal(f"a loop of the kind {statement.kind}")
        first, extent = (bare(self._write.text(v)) for v in (statement.min, statement.extent))
        end = extent if first == "0" else self._sum(statement.min, statement.extent)
        kind = self._write.type_name(dtype_of(statement.loop_var))
        name = self._name(statement.loop_var, "i")
        # The end is taken once: what it is computed of may change in the loop.
        begin = f"{kind} {name} = {first}, {name}_end = {end}"
        yield f"{_INDENT * depth}for ({begin}; {name} < {name}_end; ++{name}) {{"
        yield from self._statement(statement.body, depth + 1)
        yield f"{_INDENT * depth}}}"

    def _sum(self, first: Expr, extent: Expr) -> str:
        return f"{self._write.text(first)} + {self._write.text(extent)}"

    def _while(self, statement: While, depth: int) -> Lines:
        yield f"{_INDENT * depth}while ({bare(self._write.text(statement.condition))}) {{"
        yield from self._statement(statement.body, depth + 1)
        yield f"{_INDENT * depth}}}"


_WRITTEN: Mapping[type, Callable[[_Kernel, Any, int], Lines]] = {
    SeqStmt: _Kernel._sequence,
    AttrStmt: _Kernel._attribute,
    DeclBuffer: _Kernel._declare,
    AllocBuffer: _Kernel._allocate,
    Bind: _Kernel._bind,
    BufferStore: _Kernel._store,
    Evaluate: _Kernel._evaluate,
    IfThenElse: _Kernel._condition,
    For: _Kernel._loop,
    While: _Kernel._while,
}


def parameters_of(function: PrimFunc, access: tuple[str, ...]) -> tuple[Parameter, ...]:
    """The arguments of a kernel before it is lowered, under their own names."""
    return tuple(
        Parameter(buffer.name, str(buffer.dtype), how != "read")
        for buffer, how in zip(function.params, access, strict=True)
    )
