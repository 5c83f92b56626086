"""Plans: what a valid one says. Most of what is refused is in tests/format, for every language."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import EdgewiseError, PlanError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import RING
from edgewise_runtime.format.expr import Expr, Range
from edgewise_runtime.format.plan import (
    ACCESSES,
    Binding,
    Buffer,
    Kernel,
    KernelArg,
    Plan,
    Step,
    Symbol,
    check_extents,
    check_shared,
    check_states_written,
)
from edgewise_runtime.format.reading import count_values
from tests.runtime import sample
from tests.runtime.sample import MAX_PAGES, Json, plans

Change = Callable[[Json], object]


def setter(path: str, value: Any) -> Change:
    """A change that puts a value at a path such as ``steps.0.bindings.1.offset``."""

    def change(plan: Json) -> None:
        *parents, last = path.replace("kv_0", "kv.0").split("/")
        at: Any = plan
        for key in parents:
            at = at[int(key)] if isinstance(at, list) else at[key]
        at[int(last) if isinstance(at, list) else last] = value

    return change


def test_a_symbol_of_thousands_of_digits_is_refused() -> None:
    plan = plans()["prefill"]
    plan["symbols"][0]["max"] = 10**5000
    with pytest.raises(PlanError) as refused:
        Plan.from_json(plan)
    assert refused.value.code == "plan.range"
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("name", plans())
def test_a_plan_reads_and_writes_back_exactly(name: str) -> None:
    written = plans()[name]
    plan = Plan.from_json(written)
    assert plan.to_json() == written
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_plan_may_run_as_often_as_the_ring_is_long() -> None:
    written = plans()["decode"]
    assert Plan.from_json(written).max_burst == 8
    assert Plan.from_json(written | {"max_burst": RING}).max_burst == 64


def test_an_error_names_the_plan_the_step_the_argument_and_the_value() -> None:
    written = plans()["prefill"]
    written["steps"][1]["bindings"][0]["offset"] = 512
    with pytest.raises(PlanError, match=r"'prefill', step 1 \(stamp\), argument 'marks'.*512..768"):
        Plan.from_json(written)


def test_arguments_of_one_launch_may_not_overlap_where_one_is_written() -> None:
    written = plans()["prefill"]
    written["buffers"][4] |= {"shape": [1024], "bytes": 1024}
    kernel = written["kernels"]["scale"]
    kernel["args"].append({"name": "more", "dtype": "uint8", "shape": [256], "access": "read"})
    first = written["steps"][0]
    first["reads"].append("scratch.0")
    first["bindings"].append({"buffer": "scratch.0", "offset": 256})
    assert Plan.from_json(written)
    kernel["args"][2]["shape"] = [257]
    with pytest.raises(PlanError, match="overlap") as refused:
        Plan.from_json(written)
    assert refused.value.code == "plan.alias"
    kernel["args"][2]["access"] = "read"
    first["writes"].remove("scratch.0")
    assert Plan.from_json(written)


def with_arguments(extents: Sequence[tuple[int, int, str]]) -> Json:
    """A plan of one launch, whose arguments are bytes of one buffer: offset / 256, size, access."""
    written = plans()["spin"]
    args = [sample.arg(f"a{i}", "uint8", [n], access) for i, (_, n, access) in enumerate(extents)]
    written["buffers"] = [sample.scratch(4096)]
    written["kernels"] = {"touch": {"symbol": "touch", "args": args}}
    named = {"reads": "write", "writes": "read"}
    touched = {
        key: ["scratch.0"] if any(access != other for *_, access in extents) else []
        for key, other in named.items()
    }
    bindings = [{"buffer": "scratch.0", "offset": 256 * at} for at, *_ in extents]
    first = {"kernel": "touch", "bindings": bindings, "grid": [1, 1, 1], "label": "", **touched}
    return written | {"steps": [first]}


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(1, 1024), st.sampled_from(ACCESSES)), max_size=6
    )
)
def test_overlaps_are_found_wherever_they_are(extents: list[tuple[int, int, str]]) -> None:
    shared = any(
        256 * a < 256 * b + m and 256 * b < 256 * a + n and {x, y} != {"read"}
        for (a, n, x), (b, m, y) in combinations(extents, 2)
    )
    if not shared:
        Plan.from_json(with_arguments(extents))
        return
    with pytest.raises(PlanError) as refused:
        Plan.from_json(with_arguments(extents))
    assert refused.value.code == "plan.alias"


def long_sum(symbol: str, levels: int) -> Any:
    inner = symbol if levels == 0 else long_sum(symbol, levels - 1)
    return inner if levels == 0 else ["add", inner, inner]


LONG = long_sum("pages", 6)
BOUNDED = ["min", 1, LONG]


def nothing() -> Json:
    return plans()["spin"] | {"buffers": [], "kernels": {}, "steps": []}


def many_sizes(count: int) -> Json:
    sized = {"role": "state", "dtype": "uint8", "shape": [BOUNDED], "bytes": LONG}
    return nothing() | {"buffers": [{"name": f"b{i}", **sized} for i in range(count)]}


def many_arguments(count: int) -> Json:
    args = [sample.arg(f"a{i}", "uint8", [BOUNDED] * 8, "read") for i in range(count)]
    return nothing() | {"kernels": {"k": {"symbol": "k", "args": args}}}


def many_grids(count: int) -> Json:
    empty: Json = {"kernel": "k", "bindings": [], "reads": [], "writes": [], "label": ""}
    kernels = {"k": {"symbol": "k", "args": []}}
    return nothing() | {"kernels": kernels, "steps": [empty | {"grid": [BOUNDED] * 3}] * count}


@pytest.mark.parametrize("make", [many_sizes, many_arguments, many_grids])
def test_checks_take_no_more_work_than_a_plan_has_values(
    make: Callable[[int], Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    bounds = ex.bounds

    def counted(expr: Expr, ranges: Mapping[str, Range]) -> Range:
        nonlocal asked
        asked += 1
        return bounds(expr, ranges)

    monkeypatch.setattr(ex, "bounds", counted)
    for count in (2, 32):
        asked, plan = 0, make(count)
        Plan.from_json(plan)
        assert 0 < asked < 8 * count_values(json.dumps(plan).encode())


def test_a_plan_made_in_python_is_checked_too() -> None:
    arg = KernelArg("x", "float32", (4, 8), "readwrite")

    def make(size: int) -> Plan:
        return Plan(
            name="decode",
            target="cpu",
            symbols=(Symbol("pages", "load", 1, 8),),
            buffers=(Buffer("x", "output", "float32", (4, 8), size),),
            kernels={"k": Kernel("k", (arg,))},
            steps=(Step("k", (Binding("x"),), reads=("x",), writes=("x",)),),
            host="plan_decode",
        )

    assert make(128).to_json() == Plan.from_json(make(128).to_json()).to_json()
    with pytest.raises(PlanError) as refused:
        make(64)
    assert refused.value.code == "plan.bytes"


def test_sizes_are_checked_again_with_the_chosen_values() -> None:
    # At 1 and at the most pages the sizes fit; in between they do not.
    written = plans()["prefill"]
    pages = ["max", "pages", ["min", ["mul", "pages", 2], 2048]]
    written["buffers"][2]["bytes"] = ["mul", ["add", "pages", 1], 256]
    written["buffers"][2]["shape"][0] = pages
    plan = Plan.from_json(written)
    check_extents(plan, plan.resolve({"pages": MAX_PAGES}))
    with pytest.raises(PlanError) as refused:
        check_extents(plan, plan.resolve({"pages": 1000}))
    assert refused.value.code == "plan.bytes"


@pytest.mark.parametrize(
    ("values", "code"),
    [({}, "plan.symbol"), ({"pages": 0}, "plan.range"), ({"pages": MAX_PAGES + 1}, "plan.range")],
)
def test_load_symbols_need_values_in_range(values: dict[str, int], code: str) -> None:
    plan = Plan.from_json(plans()["prefill"])
    with pytest.raises(PlanError) as refused:
        plan.resolve(values)
    assert refused.value.code == code
    assert plan.resolve({"pages": 7, "other": 1}) == {"pages": 7}


def test_state_that_nothing_writes_is_found() -> None:
    prefill = Plan.from_json(plans()["prefill"])
    check_states_written([prefill])
    written = plans()["prefill"]
    written["kernels"]["stamp"]["args"][1]["access"] = "read"
    written["steps"][1] |= {"writes": [], "reads": ["scratch.0", "kv.0", "table"]}
    with pytest.raises(PlanError, match=r"kv\.0") as refused:
        check_states_written([Plan.from_json(written), Plan.from_json(plans()["decode"])])
    assert refused.value.code == "plan.unwritten"


def test_plans_agree_on_what_they_share() -> None:
    prefill, decode = (Plan.from_json(plans()[name]) for name in ("prefill", "decode"))
    check_shared([prefill, decode])
    narrow = plans()["decode"]
    narrow["buffers"][0] |= {"shape": [32]}
    with pytest.raises(PlanError, match="'x'") as refused:
        check_shared([prefill, Plan.from_json(narrow)])
    assert refused.value.code == "plan.shared"
    fewer = plans()["decode"]
    fewer["symbols"][0]["max"] = 17
    with pytest.raises(PlanError, match="'pages'"):
        check_shared([prefill, Plan.from_json(fewer)])


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, -1, 0, 10**4000, "x", "pages", "kv.0", "\0", "..", 1.5])
    | st.floats()
    | st.text(max_size=8)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=6) | st.sampled_from(["name", "op"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into nested JSON."""
    found = [path]
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


PLACES = [path for path in places(plans()["prefill"]) if path]


@given(st.lists(st.tuples(st.sampled_from(PLACES), anything), min_size=1, max_size=3))
def test_no_change_to_a_plan_raises_anything_but_our_errors(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    plan = plans()["prefill"]
    for path, value in changes:
        at: Any = plan
        try:
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    with suppress(EdgewiseError):
        read = Plan.from_json(plan)
        assert Plan.from_json(read.to_json()) == read


@given(anything)
def test_nothing_at_all_raises_anything_but_our_errors(value: Any) -> None:
    with pytest.raises(EdgewiseError):
        Plan.from_json(value)
