"""The cost of a plan, from the plan alone."""

from __future__ import annotations

import pytest

from edgewise_runtime.cost import measure_bandwidth, plan_cost
from edgewise_runtime.errors import PlanError
from edgewise_runtime.format.plan import Plan
from tests.runtime.sample import plans

VALUES = {"n": 3, "b": 2, "kv": 10, "pages": 4}


def test_costs_are_summed_over_steps() -> None:
    cost = plan_cost(Plan.from_json(plans()["prefill"]), VALUES)
    assert cost.launches == 2
    scale, stamp = cost.steps
    assert (scale.label, scale.bytes, scale.flops) == ("layers.0.scale", 3 * 64 + 32, 24)
    assert (stamp.label, stamp.bytes, stamp.flops) == ("layers.0.stamp", 2 * 14, 8)
    assert (cost.bytes, cost.flops) == (252, 32)


def test_a_kernel_without_a_stated_cost_moves_all_its_arguments() -> None:
    (step,) = plan_cost(Plan.from_json(plans()["decode"]), {}).steps
    assert (step.bytes, step.flops) == (2 * 128 + 2 * 96 + 32 + 512, 0)


def test_roofline_time_is_the_slower_of_memory_and_arithmetic() -> None:
    cost = plan_cost(Plan.from_json(plans()["prefill"]), VALUES)
    assert cost.seconds(gigabytes=1, gigaflops=1e6) == pytest.approx(252e-9)
    assert cost.seconds(gigabytes=1e6, gigaflops=1) == pytest.approx(32e-9)
    # The first launch is bound by memory, the second by arithmetic.
    assert cost.seconds(gigabytes=4, gigaflops=1) == pytest.approx((224 / 4 + 8) * 1e-9)


def test_kernels_are_listed_slowest_first() -> None:
    written = plans()["prefill"]
    written["steps"].append(written["steps"][1])
    costs = plan_cost(Plan.from_json(written), VALUES).by_kernel(1, 1e6)
    assert [(c.kernel, c.launches, c.bytes, c.flops) for c in costs] == [
        ("scale", 1, 224, 24),
        ("stamp", 2, 56, 16),
    ]
    assert [c.kernel for c in plan_cost(Plan.from_json(written), VALUES).by_kernel(1e6, 0.1)] == [
        "scale",
        "stamp",
    ]


@pytest.mark.parametrize(
    ("values", "code"), [({"n": 3, "b": 2}, "plan.symbol"), (VALUES | {"n": 5}, "plan.range")]
)
def test_costs_need_values_in_range(values: dict[str, int], code: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_cost(Plan.from_json(plans()["prefill"]), values)
    assert error.value.code == code


def test_bandwidth_is_measured_in_a_plausible_range() -> None:
    found = measure_bandwidth(0.01, threads=1)
    assert 0.1 < found.median <= found.best < 10_000
