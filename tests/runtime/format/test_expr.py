"""Expressions: what they evaluate to, how far they reach, and what is no expression."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import PlanError
from edgewise_runtime.format import expr as ex

VALUES = {"n": 7, "b": 2}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = ["add", value, 1]
    return value


def wide(levels: int) -> Any:
    return ["add", wide(levels - 1), wide(levels - 1)] if levels else 1


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (5, 5),
        ("n", 7),
        (["add", "n", 3], 10),
        (["sub", "b", "n"], -5),
        (["mul", "n", ["add", "b", 1]], 21),
        (["floordiv", "n", 2], 3),
        (["ceildiv", "n", 2], 4),
        (["floordiv", ["sub", 0, "n"], 2], -4),
        (["ceildiv", ["sub", 0, "n"], 2], -3),
        (["min", "n", "b"], 2),
        (["max", "n", "b"], 7),
    ],
)
def test_an_expression_evaluates(written: Any, value: int) -> None:
    parsed = ex.parse(written)
    assert ex.evaluate(parsed, VALUES) == value
    assert ex.to_json(parsed) == written
    assert ex.bounds(parsed, {name: (v, v) for name, v in VALUES.items()}) == (value, value)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        (None, "plan.expr"),
        (True, "plan.expr"),
        (1.5, "plan.expr"),
        ("", "plan.expr"),
        ("a b", "plan.expr"),
        ("../n", "plan.expr"),
        ("n" * 200, "plan.expr"),
        ([], "plan.expr"),
        (["add", 1], "plan.expr"),
        (["add", 1, 2, 3], "plan.expr"),
        (["pow", 2, 3], "plan.expr"),
        ([["add"], 1, 2], "plan.expr"),
        ({"add": [1, 2]}, "plan.expr"),
        (2**53, "plan.expr"),
        (-(2**53), "plan.expr"),
        (10**5000, "plan.expr"),
        (nested(17), "plan.expr"),
        (nested(5000), "plan.expr"),
        (wide(8), "plan.expr"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_anything_else_is_no_expression(written: Any, code: str) -> None:
    with pytest.raises(PlanError) as refused:
        ex.parse(written)
    assert refused.value.code == code
    assert len(str(refused.value)) < 300


def test_depth_and_size_at_the_limit_are_accepted() -> None:
    assert ex.evaluate(ex.parse(nested(16)), {}) == 17
    assert ex.evaluate(ex.parse(wide(7)), {}) == 128


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("k", "plan.symbol"),
        (["floordiv", 1, ["sub", "b", 2]], "plan.expr"),
        (["ceildiv", 1, ["sub", "b", 7]], "plan.expr"),
        (["mul", 2**52, 2], "plan.expr"),
        (["sub", ["mul", 2**52, 2], 2**52], "plan.expr"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(written: Any, code: str) -> None:
    for use in (
        lambda e: ex.evaluate(e, VALUES),
        lambda e: ex.bounds(e, {"n": (1, 7), "b": (2, 2)}),
    ):
        with pytest.raises(PlanError) as refused:
            use(ex.parse(written))
        assert refused.value.code == code


def test_symbols_are_collected() -> None:
    parsed = ex.parse(["mul", ["add", "n", 1], ["min", "b", ["max", "n", "kv"]]])
    assert ex.symbols(parsed) == {"n", "b", "kv"}
    assert ex.symbols(3) == frozenset()


leaves = st.integers(-50, 50) | st.sampled_from(["n", "b"])
expressions = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(sorted(ex.OPERATIONS)), inner, inner).map(list),
    max_leaves=12,
)


@given(expressions, st.integers(0, 5), st.integers(0, 4), st.integers(-3, 5), st.integers(0, 4))
def test_bounds_hold_every_value_in_the_ranges(
    written: Any, n: int, n_width: int, b: int, b_width: int
) -> None:
    parsed = ex.parse(written)
    try:
        low, high = ex.bounds(parsed, {"n": (n, n + n_width), "b": (b, b + b_width)})
    except PlanError:
        return
    for x, y in product(range(n, n + n_width + 1), range(b, b + b_width + 1)):
        assert low <= ex.evaluate(parsed, {"n": x, "b": y}) <= high


@given(expressions)
def test_json_and_back_changes_nothing(written: Any) -> None:
    parsed = ex.parse(written)
    assert ex.to_json(parsed) == written
    assert ex.parse(ex.to_json(parsed)) == parsed
