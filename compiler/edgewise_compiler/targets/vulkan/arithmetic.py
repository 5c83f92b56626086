"""Arithmetic of values: which instruction does it for their kind, and what follows at once.

Integers wrap around, but indices never do (`kernels.indices`), and so what is added or multiplied
of what is not negative is not negative here, as TVM's own analyzers have it. Vulkan leaves open
what SRem and SMod are of negative numbers; they are used only where there are none.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_compiler.targets.vulkan.function import Function
from edgewise_compiler.targets.vulkan.module import BOOL, I32, U32, Kind, Value
from edgewise_runtime.errors import CompileError

_CLASSES: Mapping[str, int] = {"int32": 0, "uint32": 1, "float32": 2, "float16": 2, "bool": 3}

_BINARY: Mapping[str, tuple[str, ...]] = {
    "Add": ("IAdd", "IAdd", "FAdd"),
    "Sub": ("ISub", "ISub", "FSub"),
    "Mul": ("IMul", "IMul", "FMul"),
    "Div": ("SDiv", "UDiv", "FDiv"),
    "BitwiseAnd": ("BitwiseAnd", "BitwiseAnd", "", "LogicalAnd"),
    "BitwiseOr": ("BitwiseOr", "BitwiseOr", "", "LogicalOr"),
    "BitwiseXor": ("BitwiseXor", "BitwiseXor", "", "LogicalNotEqual"),
    "LShift": ("ShiftLeftLogical", "ShiftLeftLogical"),
    "RShift": ("ShiftRightArithmetic", "ShiftRightLogical"),
    "And": ("", "", "", "LogicalAnd"),
    "Or": ("", "", "", "LogicalOr"),
}
"""By what TIR calls it: instructions for signed and unsigned integers, floats and truth values."""

_COMPARED: Mapping[str, tuple[str, ...]] = {
    "EQ": ("IEqual", "IEqual", "FOrdEqual", "LogicalEqual"),
    "NE": ("INotEqual", "INotEqual", "FUnordNotEqual", "LogicalNotEqual"),
    "LT": ("SLessThan", "ULessThan", "FOrdLessThan"),
    "LE": ("SLessThanEqual", "ULessThanEqual", "FOrdLessThanEqual"),
    "GT": ("SGreaterThan", "UGreaterThan", "FOrdGreaterThan"),
    "GE": ("SGreaterThanEqual", "UGreaterThanEqual", "FOrdGreaterThanEqual"),
}

_EXTREMES: Mapping[str, tuple[str, ...]] = {
    "Min": ("SMin", "UMin", "FMin"),
    "Max": ("SMax", "UMax", "FMax"),
}

_DIVISIONS = ("FloorDiv", "FloorMod", "Div", "Mod")


class Arithmetic:
    """Arithmetic in a function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._positive: set[int] = set()

    def constant(self, value: int, kind: Kind = I32) -> Value:
        """An integer, in every lane."""
        return self.spread(
            Value(self.function.module.integer(value, Kind(kind.scalar)), kind), kind
        )

    def counted(self, value: Value) -> Value:
        """Note that an int32 is never negative."""
        self._positive.add(value.id)
        return value

    def spread(self, value: Value, kind: Kind) -> Value:
        """A scalar in every lane of a vector, which a vector is already."""
        if value.kind.lanes == kind.lanes or kind.lanes == 1:
            return value
        wide = Kind(value.kind.scalar, kind.lanes)
        return self.function.construct(wide, (value.id,) * kind.lanes)

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """``a`` and ``b`` combined, by the name of a TIR node. One may be a scalar for all lanes.

        Raises:
            CompileError: SPIR-V has nothing for this kind.
        """
        kind = a.kind if a.kind.lanes >= b.kind.lanes else b.kind
        a, b = self.spread(a, kind), self.spread(b, kind)
        if name in _DIVISIONS and not kind.is_float:
            return self._divided(name, a, b)
        if kind in (I32, U32):
            folded = self._folded(name, a, b)
            if folded is not None:
                return folded
        if name in _EXTREMES:
            made = self.function.extended(_pick(_EXTREMES, name, kind), kind, a.id, b.id)
        else:
            made = self.function.pure(_pick(_BINARY, name, kind), kind, a.id, b.id)
        if kind == I32 and self._stays_positive(name, a, b):
            self._positive.add(made.id)
        return made

    def compare(self, name: str, a: Value, b: Value) -> Value:
        """Whether a comparison holds."""
        return self.function.pure(_pick(_COMPARED, name, a.kind), BOOL, a.id, b.id)

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        """``a`` where the scalar ``condition`` holds, else ``b``, all lanes of it."""
        wide = self.spread(condition, a.kind)
        made = self.function.pure("Select", a.kind, wide.id, a.id, b.id)
        if self._is_positive(a) and self._is_positive(b):
            self._positive.add(made.id)
        return made

    def convert(self, value: Value, scalar: str) -> Value:
        """``value`` as another type of the same lanes, rounded or cut as SPIR-V does it."""
        kind, function = Kind(scalar, value.kind.lanes), self.function
        if kind == value.kind:
            return value
        if value.kind.scalar == "bool":
            return self.choose(value, self._number(1, kind), self._number(0, kind))
        if scalar == "bool":
            return self.compare("NE", value, self._number(0, value.kind))
        if value.kind.is_float:
            name = "FConvert"
            if not kind.is_float:
                name = "ConvertFToS" if scalar == "int32" else "ConvertFToU"
        elif kind.is_float:
            name = "ConvertSToF" if value.kind.scalar == "int32" else "ConvertUToF"
        else:
            return self.bits(value, scalar)
        return function.pure(name, kind, value.id)

    def bits(self, value: Value, scalar: str) -> Value:
        """The bits of ``value`` as another type of 32 bits."""
        kind = Kind(scalar, value.kind.lanes)
        if kind == value.kind:
            return value
        known = self.function.module.constants.get(value.id)
        if known is not None and not kind.is_float and kind.lanes == 1:
            return self.constant(known, kind)
        return self.function.pure("Bitcast", kind, value.id)

    def _number(self, value: int, kind: Kind) -> Value:
        if not kind.is_float:
            return self.constant(value, kind)
        scalar = Kind(kind.scalar)
        return self.spread(Value(self.function.module.number(value, scalar), scalar), kind)

    def _folded(self, name: str, a: Value, b: Value) -> Value | None:
        """The result of scalar integers that needs no instruction."""
        known = self.function.module.constants
        x, y = known.get(a.id), known.get(b.id)
        if x is not None and y is not None:
            match name:
                case "Add":
                    return self.constant(x + y, a.kind)
                case "Sub":
                    return self.constant(x - y, a.kind)
                case "Mul":
                    return self.constant(x * y, a.kind)
                case "Min" | "Max":
                    return self.constant(min(x, y) if name == "Min" else max(x, y), a.kind)
        if y == 0 and name in ("Add", "Sub", "LShift", "RShift", "BitwiseOr", "BitwiseXor"):
            return a
        if x == 0 and name in ("Add", "BitwiseOr", "BitwiseXor"):
            return b
        if y == 1 and name == "Mul":
            return a
        if x == 1 and name == "Mul":
            return b
        if name == "Mul" and 0 in (x, y):
            return self.constant(0, a.kind)
        return None

    def _divided(self, name: str, a: Value, b: Value) -> Value:
        kind, function, known = a.kind, self.function, self.function.module.constants
        if kind.scalar == "uint32":
            return function.pure("UMod" if "Mod" in name else "UDiv", kind, a.id, b.id)
        positive = self._is_positive(a) and self._is_positive(b)
        divisor = known.get(b.id, 0)
        if divisor > 0 and divisor & (divisor - 1) == 0 and (positive or "Floor" in name):
            if "Mod" in name:
                return self.counted(self.binary("BitwiseAnd", a, self.constant(divisor - 1)))
            return self.binary("RShift", a, self.constant(divisor.bit_length() - 1))
        if positive:
            made = function.pure("SRem" if "Mod" in name else "SDiv", kind, a.id, b.id)
            return self.counted(made)
        quotient = function.pure("SDiv", kind, a.id, b.id)
        product = function.pure("IMul", kind, quotient.id, b.id)
        rest = function.pure("ISub", kind, a.id, product.id)
        if not name.startswith("Floor"):
            return quotient if name == "Div" else rest
        # One lower where something is left whose sign is not the divisor's.
        zero = self.constant(0, kind)
        signs = self.binary("BitwiseXor", rest, b)
        lower = self.binary("And", self.compare("NE", rest, zero), self.compare("LT", signs, zero))
        if name == "FloorDiv":
            return self.binary("Sub", quotient, self.convert(lower, "int32"))
        return self.binary("Add", rest, self.choose(lower, b, zero))

    def _is_positive(self, value: Value) -> bool:
        known = self.function.module.constants.get(value.id)
        return value.id in self._positive if known is None else known >= 0

    def _stays_positive(self, name: str, a: Value, b: Value) -> bool:
        first, second = self._is_positive(a), self._is_positive(b)
        if name in ("Add", "Mul", "Min", "BitwiseOr", "BitwiseXor"):
            return first and second
        if name in ("Max", "BitwiseAnd"):
            return first or second
        return name == "RShift" and first


def _pick(table: Mapping[str, tuple[str, ...]], name: str, kind: Kind) -> str:
    """The instruction of a table for a kind."""
    row, column = table.get(name, ()), _CLASSES[kind.scalar]
    if column >= len(row) or not row[column]:
        raise CompileError(
            f"SPIR-V has no {name} of {kind.scalar}.",
            remedy="Kernels compute with what kernels/gpu/operations.py names.",
            code="compile.operation",
        )
    return row[column]
