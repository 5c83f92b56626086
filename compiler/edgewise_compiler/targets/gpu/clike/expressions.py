"""Lowered TIR expressions in a language that looks like C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import DataType
from tvm.ir import Call, Expr
from tvm.ir.expr import TensorLoad, Var
from tvm.ir.prim import expr as e
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.operations import PREFIX, dtype_of
from edgewise_compiler.targets.gpu.clike.dialect import Dialect, Text
from edgewise_compiler.targets.gpu.spelling import operation_of
from edgewise_runtime.errors import CompileError

_OPERATORS: Mapping[type, str] = {
    e.Add: "+",
    e.Sub: "-",
    e.Mul: "*",
    e.Div: "/",
    e.Mod: "%",
    e.EQ: "==",
    e.NE: "!=",
    e.LT: "<",
    e.LE: "<=",
    e.GT: ">",
    e.GE: ">=",
    e.And: "&&",
    e.Or: "||",
    e.BitwiseAnd: "&",
    e.BitwiseOr: "|",
    e.BitwiseXor: "^",
    e.LShift: "<<",
    e.RShift: ">>",
}

_LANES = "xyzw"


class Expressions:
    """Writes expressions; names of variables and buffers are added as they are declared."""

    def __init__(self, dialect: Dialect, kernel: str) -> None:
        self.dialect = dialect
        self.names: dict[Var, str] = {}
        self._kernel = kernel

    def type_name(self, dtype: str) -> str:
        """A dtype as the language writes it.

        Raises:
            CompileError: it has no such type.
        """
        return self._found(self.dialect.types, dtype, f"values of {dtype}")

    def text(self, value: Expr) -> str:
        """An expression, in parentheses where an operand needs them.

        Raises:
            CompileError: the language, or this printer, has no word for it.
        """
        kind = type(value)
        if kind in _OPERATORS or kind in (e.Min, e.Max):
            return self._binary(value, kind)
        write = _WRITTEN.get(kind)
        if write is None:
            raise self.refusal(f"TIR's {kind.__name__}")
        return write(self, value)

    def element(self, buffer: Buffer, indices: Any) -> str:
        """An element of a buffer; a register of one element is its name."""
        name = self.names[buffer]
        if len(indices) != 1:
            raise self.refusal(f"{len(indices)} indices of {name}")
        return name if is_register(buffer) else f"{name}[{bare(self.text(indices[0]))}]"

    def refusal(self, what: str) -> CompileError:
        """The error that says what a kernel asks for."""
        language = self.dialect.language
        return CompileError(
            f"Kernel {self._kernel!r} asks for {what}, which has no spelling in {language}.",
            remedy="Write the kernel with what `kernels.gpu.operations` has.",
            code="compile.operation",
        )

    def _binary(self, value: Any, kind: type) -> str:
        a, b = self.text(value.a), self.text(value.b)
        name = self.dialect.binary.get((kind.__name__, dtype_of(value)))
        if name is not None:
            return f"{name}({bare(a)}, {bare(b)})"
        operator = _OPERATORS.get(kind)
        if operator is None:
            raise self.refusal(f"{kind.__name__} of {dtype_of(value)}")
        return f"({a} {operator} {b})"

    def _not(self, value: e.Not) -> str:
        return f"(!{self.text(value.a)})"

    def _integer(self, value: e.IntImm) -> str:
        number, dtype = int(value.value), dtype_of(value)
        if dtype == "bool":
            return "true" if number else "false"
        if dtype == "uint32":
            return f"{number}u"
        if dtype != "int32":
            raise self.refusal(f"a constant of {dtype}")
        if number == -(1 << 31):  # C has no literal for it
            return f"({number + 1} - 1)"
        return str(number) if number >= 0 else f"({number})"

    def _float(self, value: e.FloatImm) -> str:
        number, dtype = float(value.value), dtype_of(value)
        if not np.isfinite(number):
            raise self.refusal(f"the constant {number}")
        text = f"{number:.9g}"
        text = f"{text if set(text) & set('.e') else text + '.0'}f"
        text = text if number >= 0 else f"({text})"
        if dtype == "float32":
            return text
        return f"{self._found(self.dialect.literals, dtype, f'a constant of {dtype}')}({text})"

    def _variable(self, value: Var) -> str:
        return self.names[value]

    def _load(self, value: TensorLoad) -> str:
        return self.element(value.source, value.indices)

    def _cast(self, value: e.Cast) -> str:
        old, new = dtype_of(value.value), dtype_of(value)
        text = self.text(value.value)
        if old == new:
            return text
        name = self.dialect.casts.get((old, new))
        if name is not None:
            return f"{name}({bare(text)})"
        if "float16" in (old, new) or DataType(new).lanes > 1:
            raise self.refusal(f"{new} of {old}")
        return f"(({self.type_name(new)}){text})"

    def _select(self, value: e.Select) -> str:
        parts = (value.condition, value.true_value, value.false_value)
        condition, a, b = map(self.text, parts)
        return f"({condition} ? {a} : {b})"

    def _broadcast(self, value: e.Broadcast) -> str:
        dtype = dtype_of(value)
        name = self._found(self.dialect.splats, dtype, f"{dtype} of one scalar")
        return f"{name}({bare(self.text(value.value))})"

    def _lane(self, value: e.Shuffle) -> str:
        if len(value.vectors) != 1 or len(value.indices) != 1:
            raise self.refusal("lanes of several vectors")
        vector, lane = value.vectors[0], int(value.indices[0])
        text, get = self.text(vector), self.dialect.lanes.get(dtype_of(vector))
        return f"{text}.{_LANES[lane]}" if get is None else get(text, lane)

    def _call(self, value: Call) -> str:
        name = operation_of(value)
        if name is None:
            raise self.refusal(f"TIR's {value.op.name}")
        arguments = [Text(self.text(argument), dtype_of(argument)) for argument in value.args[1:]]
        if name.startswith(PREFIX):
            spelling = self.dialect.operations.get(name.removeprefix(PREFIX))
            if spelling is None:
                raise self.refusal(repr(name))
            return spelling(dtype_of(value), *arguments)
        own = self._found(self.dialect.functions, name, repr(name))
        return f"{own}({', '.join(bare(argument.text) for argument in arguments)})"

    def _found(self, table: Mapping[str, str], key: str, what: str) -> str:
        found = table.get(key)
        if found is None:
            raise self.refusal(what)
        return found


_WRITTEN: Mapping[type, Callable[[Expressions, Any], str]] = {
    e.Not: Expressions._not,
    e.IntImm: Expressions._integer,
    e.FloatImm: Expressions._float,
    Var: Expressions._variable,
    TensorLoad: Expressions._load,
    e.Cast: Expressions._cast,
    e.Select: Expressions._select,
    e.Broadcast: Expressions._broadcast,
    e.Shuffle: Expressions._lane,
    Call: Expressions._call,
}


def is_register(buffer: Buffer) -> bool:
    """Whether a buffer is one element of a thread's own."""
    return buffer.scope() == "local" and [int(size) for size in buffer.shape] == [1]


def bare(text: str) -> str:
    """An expression that stands alone: without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
