"""TIR expressions to values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad
from tvm.tirx import FloatImm, IntImm, Var

from edgewise_compiler.kernels.gpu.operations import PREFIX, dtype_of
from edgewise_compiler.targets.gpu.spelling import operation_of
from edgewise_compiler.targets.vulkan.arithmetic import Arithmetic
from edgewise_compiler.targets.vulkan.memory import Memory
from edgewise_compiler.targets.vulkan.module import BOOL, Kind, Value, kind_of
from edgewise_compiler.targets.vulkan.spelling import SPIRV
from edgewise_runtime.errors import CompileError


class Expressions:
    """What expressions of a kernel are in the function being written."""

    def __init__(self, arithmetic: Arithmetic, memory: Memory) -> None:
        self.arithmetic = arithmetic
        self.function = arithmetic.function
        self.memory = memory
        self.names: dict[Var, Value] = {}

    def value(self, expression: Expr) -> Value:
        """The value of an expression, computed where the function is being written.

        Raises:
            CompileError: SPIR-V kernels do not compute it.
        """
        compute = _COMPUTE.get(type(expression))
        if compute is None:
            raise _unknown(type(expression).__name__)
        return compute(self, expression)

    def place(self, indices: Any, shape: tuple[int, ...]) -> Value:
        """The place of an element among all of an array, int32."""
        at: Value | None = None
        for index, extent in zip(indices, shape, strict=True):
            here = self.arithmetic.convert(self.value(index), "int32")
            if at is not None:
                rows = self.arithmetic.binary("Mul", at, self.arithmetic.constant(extent))
                here = self.arithmetic.binary("Add", rows, here)
            at = here
        return self.arithmetic.constant(0) if at is None else at

    def _load(self, node: TensorLoad) -> Value:
        register = self.memory.register(node.source, node.indices)
        if register is not None:
            return self.memory.value(register)
        place = self.memory.places[node.source]
        pointer = self.memory.pointer(place, self.place(node.indices, place.shape))
        read = self.function.pure if place.frozen else self.function.once
        return read("Load", place.kind, pointer)

    def _name(self, node: Var) -> Value:
        return self.names[node]

    def _integer(self, node: IntImm) -> Value:
        kind = kind_of(dtype_of(node))
        if kind == BOOL:
            return Value(self.function.module.boolean(bool(node.value)), kind)
        return Value(self.function.module.integer(int(node.value), kind), kind)

    def _float(self, node: FloatImm) -> Value:
        kind = kind_of(dtype_of(node))
        return Value(self.function.module.number(float(node.value), kind), kind)

    def _binary(self, node: Any) -> Value:
        return self.arithmetic.binary(type(node).__name__, self.value(node.a), self.value(node.b))

    def _compare(self, node: Any) -> Value:
        return self.arithmetic.compare(type(node).__name__, self.value(node.a), self.value(node.b))

    def _both(self, node: Any) -> Value:
        """``and``, ``or``: what may lie beyond its buffer is read only where that is asked for."""
        name, first = type(node).__name__, self.value(node.a)
        if not _reads(node.b):
            return self.arithmetic.binary(name, first, self.value(node.b))
        function = self.function
        begun, more, end = function.block, function.module.new(), function.module.new()
        function.effect("SelectionMerge", end, 0)
        sides = (more, end) if name == "And" else (end, more)
        function.effect("BranchConditional", first.id, *sides)
        function.label(more)
        with function.scope():
            second = self.value(node.b)
        last = function.block
        function.effect("Branch", end)
        function.label(end)
        return function.phi(BOOL, first.id, begun, second.id, last)

    def _not(self, node: Any) -> Value:
        return self.function.pure("LogicalNot", BOOL, self.value(node.a).id)

    def _cast(self, node: Any) -> Value:
        return self.arithmetic.convert(self.value(node.value), kind_of(dtype_of(node)).scalar)

    def _select(self, node: Any) -> Value:
        a, b = self.value(node.true_value), self.value(node.false_value)
        return self.arithmetic.choose(self.value(node.condition), a, b)

    def _broadcast(self, node: Any) -> Value:
        scalar = self.value(node.value)
        return self.arithmetic.spread(scalar, Kind(scalar.kind.scalar, int(node.lanes)))

    def _lane(self, node: Any) -> Value:
        if len(node.vectors) != 1 or len(node.indices) != 1:
            raise _unknown("a Shuffle of more than one lane")
        vector, index = self.value(node.vectors[0]), int(node.indices[0])
        kind = Kind(vector.kind.scalar)
        if vector.id in self.function.parts:
            return Value(self.function.parts[vector.id][index], kind)
        return self.function.pure("CompositeExtract", kind, vector.id, index)

    def _call(self, node: Call) -> Value:
        name = operation_of(node)
        if name is None:
            if node.op.name == "tirx.sqrt":
                value = self.value(node.args[0])
                return self.function.extended("Sqrt", value.kind, value.id)
            raise _unknown(str(node.op.name))
        spelling = SPIRV.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        if spelling is None:
            raise _unknown(name)
        kind = kind_of(dtype_of(node))
        return spelling(self.arithmetic, kind, *(self.value(a) for a in node.args[1:]))


Compute = Callable[[Expressions, Any], Value]

_ARITHMETIC = (
    "Add Sub Mul Div Mod FloorDiv FloorMod Min Max BitwiseAnd BitwiseOr BitwiseXor LShift RShift"
)
_COMPARISONS = "EQ NE LT LE GT GE"

_COMPUTE: Mapping[type, Compute] = {
    **{getattr(tirx, name): Expressions._binary for name in _ARITHMETIC.split()},
    **{getattr(tirx, name): Expressions._compare for name in _COMPARISONS.split()},
    tirx.And: Expressions._both,
    tirx.Or: Expressions._both,
    tirx.Not: Expressions._not,
    tirx.Cast: Expressions._cast,
    tirx.Select: Expressions._select,
    tirx.Broadcast: Expressions._broadcast,
    tirx.Shuffle: Expressions._lane,
    TensorLoad: Expressions._load,
    Var: Expressions._name,
    IntImm: Expressions._integer,
    FloatImm: Expressions._float,
    Call: Expressions._call,
}


def _reads(expression: Expr) -> bool:
    """Whether it loads from a place that is not written out."""
    found: list[TensorLoad] = []

    def note(load: TensorLoad) -> None:
        if not all(type(index) is IntImm for index in load.indices):
            found.append(load)

    tvm_ffi.structural_walk(expression, (TensorLoad, note))
    return bool(found)


def _unknown(what: str) -> CompileError:
    return CompileError(
        f"A kernel asks for {what!r}, which has no spelling in SPIR-V.",
        remedy=f"Operations it has: {', '.join(SPIRV)}.",
        code="compile.operation",
    )
