"""Small integer expressions over symbols: how plans write sizes, grids and costs.

An expression is an int, the name of a symbol, or ``[op, a, b]``. In memory the list is a tuple,
so expressions are immutable and hashable. Every intermediate result stays below 2^53 in
magnitude, so that Python and JavaScript agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from edgewise_runtime.errors import PlanError
from edgewise_runtime.format.reading import LIMIT, NAME, shorten

Expr: TypeAlias = "int | str | tuple[str, Expr, Expr]"
Range: TypeAlias = tuple[int, int]
"""Inclusive lower and upper bound."""

MAX_DEPTH = 16
MAX_NODES = 256


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": _ceildiv,
    "min": min,
    "max": max,
}
DIVISIONS = frozenset({"floordiv", "ceildiv"})


def _fail(message: str) -> PlanError:
    return PlanError(f"{message}.", code="plan.expr")


def parse(value: object) -> Expr:
    """Read an expression from its JSON form (lists or tuples), checking its shape and size.

    Raises:
        PlanError: ``plan.expr`` for anything that is not an expression, deeper than 16 levels,
            longer than 256 nodes, or holding a constant of 2^53 or more.
    """
    budget = [MAX_NODES]
    return _parse(value, MAX_DEPTH, budget)


def _parse(value: object, depth: int, budget: list[int]) -> Expr:
    budget[0] -= 1
    if budget[0] < 0 or depth < 0:
        raise _fail(f"An expression is larger than {MAX_NODES} nodes or {MAX_DEPTH} levels")
    if isinstance(value, bool):
        raise _fail(f"An expression cannot hold {value}")
    if isinstance(value, int):
        if abs(value) >= LIMIT:
            raise _fail(f"The constant {shorten(value)} is not below 2^53")
        return value
    if isinstance(value, str):
        if not NAME.fullmatch(value):
            raise _fail(f"{shorten(value)} is not the name of a symbol")
        return value
    if isinstance(value, list | tuple) and len(value) == 3 and isinstance(value[0], str):
        if value[0] not in OPERATIONS:
            known = ", ".join(OPERATIONS)
            raise _fail(f"Unknown operation {shorten(value[0])}; known are {known}")
        left = _parse(value[1], depth - 1, budget)
        return (value[0], left, _parse(value[2], depth - 1, budget))
    raise _fail(f"Not an expression: {shorten(value)}")


def to_json(expr: Expr) -> Any:
    """The JSON form: tuples become lists. `parse` of the result gives `expr` back."""
    if isinstance(expr, tuple):
        return [expr[0], to_json(expr[1]), to_json(expr[2])]
    return expr


def symbols(expr: Expr) -> frozenset[str]:
    """Names of the symbols the expression uses."""
    if isinstance(expr, tuple):
        return symbols(expr[1]) | symbols(expr[2])
    return frozenset((expr,)) if isinstance(expr, str) else frozenset()


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The value at given symbol values.

    Raises:
        PlanError: ``plan.symbol`` for a symbol without a value, ``plan.expr`` for a divisor
            below 1 or a result of 2^53 or more.
    """
    if isinstance(expr, tuple):
        op, a, b = expr[0], evaluate(expr[1], values), evaluate(expr[2], values)
        if op in DIVISIONS and b < 1:
            raise _fail(f"{shorten(to_json(expr))} divides by {b}")
        result = OPERATIONS[op](a, b)
        if abs(result) >= LIMIT:
            raise _fail(f"{shorten(to_json(expr))} reaches {result}, which is not below 2^53")
        return result
    if isinstance(expr, str):
        if expr not in values:
            raise PlanError(f"The symbol {expr!r} has no value.", code="plan.symbol")
        return values[expr]
    return expr


def bounds(expr: Expr, ranges: Mapping[str, Range]) -> Range:
    """Inclusive bounds of the expression while each symbol stays in its range.

    Interval arithmetic: never too narrow, exact where no symbol occurs twice. Every operation is
    monotone in each argument while the other is fixed, so its extremes lie at the corners.

    Raises:
        PlanError: ``plan.symbol`` for a symbol without a range, ``plan.expr`` where a divisor may
            be below 1 or any intermediate result may reach 2^53.
    """
    if isinstance(expr, tuple):
        left, right = bounds(expr[1], ranges), bounds(expr[2], ranges)
        if expr[0] in DIVISIONS and right[0] < 1:
            raise _fail(f"{shorten(to_json(expr))} may divide by {right[0]}")
        operation = OPERATIONS[expr[0]]
        corners = [operation(a, b) for a in left for b in right]
        low, high = min(corners), max(corners)
        if max(abs(low), abs(high)) >= LIMIT:
            raise _fail(f"{shorten(to_json(expr))} may reach 2^53")
        return low, high
    if isinstance(expr, str):
        if expr not in ranges:
            raise PlanError(f"Unknown symbol {expr!r}.", code="plan.symbol")
        return ranges[expr]
    if abs(expr) >= LIMIT:
        raise _fail(f"The constant {shorten(expr)} is not below 2^53")
    return expr, expr
