"""Plans: what a valid one says. Most of what is refused is in tests/format, for every language."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import EdgewiseError, PlanError
from edgewise_runtime.format.abi import RING
from edgewise_runtime.format.plan import (
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
