"""Plans: what a valid one says, and that every invalid one is refused by name."""

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
from edgewise_runtime.plan import (
    Binding,
    Buffer,
    Host,
    HostArgument,
    Kernel,
    KernelArg,
    Plan,
    Step,
    Symbol,
    check_extents,
    check_shared,
    check_states_written,
    check_written,
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


def adder(path: str, value: Any) -> Change:
    def change(plan: Json) -> None:
        at: Any = plan
        for key in path.split("/"):
            at = at[int(key)] if isinstance(at, list) else at[key]
        at.append(value)

    return change


EXTRA_BUFFER = {"name": "x", "role": "output", "dtype": "float32", "shape": [1], "bytes": 4}
# Prefill's buffers are x, w, kv.0, table, scratch.0; its steps scale(x, w, scratch.0) and
# stamp(scratch.0, kv.0, table).
MUTATIONS: list[tuple[str, Change, str]] = [
    ("another version", setter("version", 2), "plan.version"),
    ("a version that only equals 1", setter("version", True), "plan.version"),
    ("no version", lambda p: p.pop("version"), "plan.missing"),
    ("no steps", lambda p: p.pop("steps"), "plan.missing"),
    ("an unknown field", setter("comment", "hello"), "plan.unknown_field"),
    ("a name with a path in it", setter("name", "../prefill"), "plan.name"),
    ("a name too long", setter("name", "p" * 300), "plan.type"),
    ("an unknown target", setter("target", "abacus"), "plan.target"),
    ("buffers that are no list", setter("buffers", {}), "plan.type"),
    ("kernels that are no object", setter("kernels", []), "plan.type"),
    ("a step that is no object", setter("steps/0", 5), "plan.type"),
    ("a symbol of an unknown kind", setter("symbols/0/kind", "loaded"), "plan.kind"),
    ("a symbol with an empty range", setter("symbols/0/min", MAX_PAGES + 1), "plan.bounds"),
    ("a symbol without a bound", lambda p: p["symbols"][0].pop("max"), "plan.missing"),
    ("a symbol below zero", setter("symbols/0/min", -1), "plan.range"),
    ("a symbol without limit", setter("symbols/0/max", 2**53), "plan.range"),
    ("a symbol of thousands of digits", setter("symbols/0/max", 10**5000), "plan.range"),
    ("two symbols of one name", setter("symbols/1/name", "pages"), "plan.duplicate"),
    ("two buffers of one name", adder("buffers", EXTRA_BUFFER), "plan.duplicate"),
    ("an unknown role", setter("buffers/0/role", "guest"), "plan.role"),
    ("an unknown dtype", setter("buffers/0/dtype", "float8"), "plan.dtype"),
    ("a dtype that is no string", setter("buffers/0/dtype", ["float32"]), "plan.dtype"),
    ("an unknown reset", setter("buffers/2/reset", "often"), "plan.reset"),
    ("init of what is no state", setter("buffers/0/init", "zero"), "plan.unknown_field"),
    ("bytes too few for the shape", setter("buffers/0/bytes", 124), "plan.bytes"),
    ("bytes too few for many pages", setter("buffers/2/bytes", 256), "plan.bytes"),
    (
        "bytes too few for one page",
        setter("buffers/2/bytes", ["sub", ["mul", "pages", 257], 2]),
        "plan.bytes",
    ),
    ("a negative extent", setter("buffers/0/shape/0", -4), "plan.size"),
    ("an extent that may be zero", setter("buffers/2/shape/0", ["sub", "pages", 1]), "plan.size"),
    ("no bytes", setter("buffers/0/bytes", 0), "plan.size"),
    ("bytes beyond any machine", setter("buffers/2/bytes", ["mul", "pages", 2**50]), "plan.expr"),
    ("a huge constant", setter("buffers/0/bytes", 2**60), "plan.expr"),
    ("bytes over a step symbol", setter("buffers/2/bytes", ["mul", "n", 4096]), "plan.symbol"),
    ("an unknown symbol", setter("buffers/2/shape/0", "sheets"), "plan.symbol"),
    ("a parameter of varying size", setter("buffers/1/bytes", ["mul", "pages", 32]), "plan.param"),
    ("scratch that is no uint8", setter("buffers/4/dtype", "int8"), "plan.scratch"),
    ("scratch of varying size", setter("buffers/4/bytes", ["mul", "pages", 256]), "plan.scratch"),
    ("scratch with a shape", setter("buffers/4/shape", [16, 16]), "plan.scratch"),
    ("two arguments of one name", setter("kernels/scale/args/1/name", "x"), "plan.duplicate"),
    ("an unknown access", setter("kernels/scale/args/0/access", "peek"), "plan.access"),
    ("an argument of no size", setter("kernels/scale/args/0/shape/0", 0), "plan.size"),
    ("an argument of huge size", setter("kernels/scale/args/0/shape", [2**30] * 3), "plan.expr"),
    (
        "an argument over an unknown symbol",
        setter("kernels/scale/args/0/shape/0", "m"),
        "plan.symbol",
    ),
    ("too many dimensions", setter("kernels/scale/args/0/shape", [1] * 9), "plan.type"),
    ("a cost below zero", setter("kernels/scale/cost/flops", -1), "plan.cost"),
    ("a cost over an unknown symbol", setter("kernels/scale/cost/flops", "m"), "plan.symbol"),
    ("half a cost", lambda p: p["kernels"]["scale"]["cost"].pop("flops"), "plan.missing"),
    ("an unknown kernel", setter("steps/0/kernel", "scales"), "plan.unknown_name"),
    ("an unknown buffer", setter("steps/0/bindings/0/buffer", "y"), "plan.unknown_name"),
    ("a binding too few", lambda p: p["steps"][0]["bindings"].pop(), "plan.args"),
    ("a binding of another dtype", setter("steps/0/bindings/0/buffer", "table"), "plan.args"),
    ("an offset off the grid", setter("steps/0/bindings/2/offset", 64), "plan.offset"),
    ("a negative offset", setter("steps/0/bindings/2/offset", -256), "plan.range"),
    ("an offset past the end", setter("steps/0/bindings/2/offset", 256), "plan.extent"),
    ("an offset far past the end", setter("steps/0/bindings/2/offset", 2**52), "plan.extent"),
    ("an argument past its buffer", setter("kernels/scale/args/2/shape", [257]), "plan.extent"),
    (
        "an argument with more pages",
        setter("kernels/stamp/args/1/shape/0", ["add", "pages", 1]),
        "plan.extent",
    ),
    ("a parameter written", setter("kernels/scale/args/1/access", "readwrite"), "plan.access"),
    ("a grid of two axes", setter("steps/0/grid", [1, 1]), "plan.grid"),
    ("a grid of no blocks", setter("steps/0/grid", [0, 1, 1]), "plan.size"),
    ("a grid over an unknown symbol", setter("steps/0/grid", ["m", 1, 1]), "plan.symbol"),
    ("reads that leave one out", setter("steps/0/reads", ["x"]), "plan.access"),
    ("writes that leave one out", setter("steps/0/writes", ["x"]), "plan.access"),
    ("writes that claim one more", setter("steps/1/writes", ["kv.0", "table"]), "plan.access"),
    ("reads that repeat", setter("steps/0/reads", ["x", "x"]), "plan.duplicate"),
    ("no host function", lambda p: p.pop("host"), "plan.host"),
    ("a host function for a GPU", setter("target", "webgpu"), "plan.host"),
    ("a host without a buffer", lambda p: p["host"]["arguments"].pop(1), "plan.host"),
    ("a host with a stranger", setter("host/arguments/0/buffer", "y"), "plan.unknown_name"),
    ("a host past its buffer", setter("host/arguments/0/shape", [2**20]), "plan.extent"),
    ("a host from past the end", setter("host/arguments/0/offset", 2**40), "plan.extent"),
    ("a host off the grid", setter("host/arguments/0/offset", 64), "plan.offset"),
    ("a host of another dtype", setter("host/arguments/0/dtype", "int8"), "plan.args"),
    ("a host over a step symbol", setter("host/arguments/0/shape", ["n"]), "plan.symbol"),
    ("a host over nothing", setter("host/arguments/0/shape", [0]), "plan.size"),
    ("a loop on a stranger", setter("loop", {"stop_buffer": "y"}), "plan.unknown_name"),
    ("a loop too long", setter("loop", {"stop_buffer": "x", "max_burst": 65}), "plan.range"),
]


@pytest.mark.parametrize(
    ("change", "code"),
    [(change, code) for _, change, code in MUTATIONS],
    ids=[name for name, _, _ in MUTATIONS],
)
def test_a_plan_is_refused_for(change: Change, code: str) -> None:
    plan = plans()["prefill"]
    change(plan)
    with pytest.raises(PlanError) as refused:
        Plan.from_json(plan)
    assert refused.value.code == code
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("name", plans())
def test_a_plan_reads_and_writes_back_exactly(name: str) -> None:
    written = plans()[name]
    plan = Plan.from_json(written)
    assert plan.to_json() == written
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_loop_without_a_number_may_run_as_often_as_the_ring_is_long() -> None:
    written = plans()["decode"]
    del written["loop"]["max_burst"]
    loop = Plan.from_json(written).loop
    assert loop is not None
    assert loop.max_burst == 64


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
            host=Host("plan_decode", (HostArgument("x", 0, "float32", (4, 8)),)),
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
    check_written(prefill, ["kv.0", "x", "scratch.0"])
    check_states_written([prefill])
    with pytest.raises(PlanError, match=r"no step writes table, w\."):
        check_written(prefill, ["w", "kv.0", "table"])
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
