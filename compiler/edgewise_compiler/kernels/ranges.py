"""Ranges of integers: what an expression of a kernel can come to, in numbers without end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tvm import DataType
from tvm.ir.prim import expr as e

BITS = 64
"""More than any integer of a kernel has."""


@dataclass(frozen=True, slots=True)
class Range:
    """Every integer from `low` to `high`, both included.

    Attributes:
        of: the plan's symbols that it depends on.
    """

    low: int
    high: int
    of: frozenset[str] = frozenset()

    def within(self, other: Range) -> bool:
        """Whether all of it lies in `other`."""
        return other.low <= self.low and self.high <= other.high

    def up_to(self, high: int) -> Range:
        """What of it is at most `high`."""
        return self if self.high <= high else replace(self, low=min(self.low, high), high=high)

    def down_to(self, low: int) -> Range:
        """What of it is at least `low`."""
        return self if self.low >= low else replace(self, low=low, high=max(self.high, low))


DATA = "data"
"""What ranges depend on that are those of a type, since memory or a call may give anything."""


class BeyondError(Exception):
    """An integer of a kernel may be one that its type does not hold.

    Attributes:
        found: what it may be.
        dtype: its type.
        elements: whether it is the number of an element of a buffer, counted from the first, and no
            integer that the kernel itself computes.
    """

    def __init__(self, found: Range, dtype: str, *, elements: bool = False) -> None:
        super().__init__(f"{found.low:,} to {found.high:,} is more than {dtype} holds")
        self.found = found
        self.dtype = dtype
        self.elements = elements


def joined(a: Range, b: Range) -> Range:
    """The smallest range that holds both."""
    return Range(min(a.low, b.low), max(a.high, b.high), a.of | b.of)


def type_range(bits: int, *, signed: bool) -> Range:
    """All integers of a type."""
    return Range(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else Range(0, (1 << bits) - 1)


@cache
def anything(dtype: str) -> Range:
    """What is known of a number by its type alone."""
    return replace(of_type(dtype), of=frozenset((DATA,)))


@cache
def of_type(dtype: str) -> Range:
    """All that a type, or a lane of it, can hold."""
    kind = DataType(dtype)
    element = str(kind.with_lanes(1))
    return type_range(1 if element == "bool" else kind.bits, signed=element.startswith("int"))


def dtype_of(value: Any) -> str:
    """The type of an expression, lanes included."""
    return str(value.ty)


Operation = Callable[[Range, Range], "tuple[int, int] | None"]
"""The lowest and the highest result; None where nothing is known but the type."""


def _corners(operation: Callable[[int, int], int]) -> Operation:
    """Of an operation that is monotone in each argument while the other is fixed."""

    def apply(a: Range, b: Range) -> tuple[int, int]:
        found = [operation(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(found), max(found)

    return apply


def _divisors(b: Range) -> Range | None:
    """What is divided by: nothing is by zero, which no result follows from."""
    return b.down_to(1) if b.low >= 0 else None


def _divided(a: Range, b: Range) -> tuple[int, int] | None:
    by = _divisors(b)
    return None if by is None else _corners(lambda x, y: x // y)(a, by)


def _remainder(a: Range, b: Range) -> tuple[int, int] | None:
    by = _divisors(b)
    if by is None:
        return None
    whole = a.low >= 0 and a.high < by.low
    return (a.low, a.high) if whole else (0, by.high - 1)


def _positive(operation: Operation) -> Operation:
    """Rounding to zero is rounding down where nothing is negative."""
    return lambda a, b: operation(a, b) if a.low >= 0 else None


def _shifted_left(a: Range, b: Range) -> tuple[int, int] | None:
    return _corners(lambda x, y: x << y)(a, b) if 0 <= b.low <= b.high < BITS else None


def _shifted_right(a: Range, b: Range) -> tuple[int, int] | None:
    return _corners(lambda x, y: x >> y)(a, b) if 0 <= b.low <= b.high < BITS else None


def _common_bits(a: Range, b: Range) -> tuple[int, int] | None:
    highest = [side.high for side in (a, b) if side.low >= 0]
    return (0, min(highest)) if highest else None


def _any_bits(a: Range, b: Range) -> tuple[int, int] | None:
    if a.low < 0 or b.low < 0:
        return None
    return 0, (1 << max(a.high, b.high).bit_length()) - 1


def _truth(a: Range, b: Range) -> tuple[int, int]:
    return 0, 1


OPERATIONS: Mapping[type, Operation] = {
    e.Add: lambda a, b: (a.low + b.low, a.high + b.high),
    e.Sub: lambda a, b: (a.low - b.high, a.high - b.low),
    e.Mul: _corners(lambda x, y: x * y),
    e.FloorDiv: _divided,
    e.FloorMod: _remainder,
    e.Div: _positive(_divided),
    e.Mod: _positive(_remainder),
    e.Min: _corners(min),
    e.Max: _corners(max),
    e.LShift: _shifted_left,
    e.RShift: _shifted_right,
    e.BitwiseAnd: _common_bits,
    e.BitwiseOr: _any_bits,
    e.BitwiseXor: _any_bits,
    **dict.fromkeys((e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or), _truth),
}
"""By the class of a TIR expression of two operands."""
