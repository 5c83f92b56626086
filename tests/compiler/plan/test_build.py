"""Plans built from real graphs: how many launches, how many bytes, and nothing that varies."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.graph.build import CPU_FLOAT, CPU_INTEGER, build_graphs, shared_sizes
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.packing import layout_tensors
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.options import Bounds
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.targets.cpu.lower import ARITHMETICS, CpuLowering
from edgewise_compiler.targets.cpu.program import build_program
from edgewise_compiler.targets.lowering import param_tensors, parts_of
from edgewise_runtime.cost import plan_cost
from edgewise_runtime.format.plan import Plan

Plans = dict[str, Plan]
LAYERS = 5
BOUNDS = Bounds(rows=512, batch=8, context=1024)
DEMO = Path(__file__).parents[3] / "examples/demo-model"


@pytest.fixture(scope="module")
def plans() -> Callable[[str], Plans]:
    """The plans of the demo model over a weight scheme, without machine code."""

    @cache
    def build(quant: str) -> Plans:
        recipe = find_preset(quant)
        arithmetic = ARITHMETICS[recipe.default.arithmetic]
        with open_checkpoint(DEMO) as checkpoint:
            cfg, family = checkpoint.model, checkpoint.family
            params = family.params(cfg)
            schemes = linear_schemes(recipe, params)
            tensors = layout_tensors(CPU, schemes, params, BOUNDS.context)
        passes = CPU_INTEGER if arithmetic.exact else CPU_FLOAT
        graphs = build_graphs(family, cfg, linear_widths(params), passes)
        shared, named = shared_sizes(graphs), param_tensors(tensors)
        low = CpuLowering(
            shared,
            BOUNDS,
            named,
            parts_of(CPU, schemes, params),
            arithmetic.kv_dtype,
            arithmetic,
            "portable",
        )
        return {built.plan.name: built.plan for built in build_program(low, graphs)}

    return build


@pytest.mark.parametrize(
    ("quant", "per_layer"), [("f32", 8), ("f16", 8), ("q8", 9), ("q6", 9), ("q5", 9), ("q4", 9)]
)
def test_a_layer_is_few_launches(quant: str, per_layer: int, plans: Callable[[str], Plans]) -> None:
    found = {name: len(plan.steps) for name, plan in plans(quant).items()}
    # Attention of a prefill is two, chunks and rows that decode. embed, norm and head, sample and
    # record surround the layers of a decode step.
    assert found == {
        "embed": 1,
        "prefill": (per_layer + 1) * LAYERS,
        "logits": 2,
        "hidden": 1,
        "sample": 2,
        "logprobs": 1,
        "forward": per_layer * LAYERS + 3,
        "decode": per_layer * LAYERS + 5,
    }


@pytest.mark.parametrize(
    ("quant", "weights"),
    [
        ("f32", 16.0e6),
        ("f16", 8.0e6),
        ("q8", 4.3e6),
        ("q6", 3.3e6),
        ("q5", 2.8e6),
        ("q4", 2.3e6),
        ("q4k", 2.3e6),
    ],
)
def test_a_decode_step_moves_little_more_than_the_weights(
    quant: str, weights: float, plans: Callable[[str], Plans]
) -> None:
    cost = plan_cost(plans(quant)["decode"], {"n": 1, "b": 1, "r": 1, "kv": 0})
    assert weights * 0.95 < cost.bytes < weights * 1.1


def test_history_costs_what_its_pages_hold(plans: Callable[[str], Plans]) -> None:
    decode = plans("q4")["decode"]
    near, far = (plan_cost(decode, {"n": 1, "b": 1, "r": 1, "kv": kv}).bytes for kv in (0, 1000))
    assert far - near == 1000 * LAYERS * 2 * 2 * 64 * 2  # tokens, layers, K and V, heads, dim, f16


def test_a_batch_reads_the_weights_once(plans: Callable[[str], Plans]) -> None:
    decode = plans("q4")["decode"]
    one, eight = (plan_cost(decode, {"n": b, "b": b, "r": b, "kv": 64}) for b in (1, 8))
    assert eight.launches == one.launches
    # Small weights: seven more rows of KV and activations weigh almost as much.
    assert eight.bytes < 2 * one.bytes
    assert eight.flops == 8 * one.flops


def test_scratch_is_reused_from_layer_to_layer(plans: Callable[[str], Plans]) -> None:
    scratch = [b for b in plans("q4")["prefill"].buffers if b.role == "scratch"]
    assert len(scratch) <= 8
    # Less than what one layer's temporaries would take side by side.
    assert sum(int(b.bytes) for b in scratch if isinstance(b.bytes, int)) < 6 << 20


def test_every_layer_writes_its_own_pages(plans: Callable[[str], Plans]) -> None:
    for name in ("prefill", "decode"):
        written = [w for step in plans("q4")[name].steps for w in step.writes]
        assert [w for w in written if w.startswith("kv.")] == [f"kv.{i}" for i in range(LAYERS)]


def test_only_pages_vary_and_offsets_are_constant(plans: Callable[[str], Plans]) -> None:
    for plan in plans("q4").values():
        varying = {b.name for b in plan.buffers if not isinstance(b.bytes, int)}
        assert all(name.startswith("kv.") for name in varying)
        assert {s.name for s in plan.symbols if s.kind == "load"} == {"pages"}


def test_plans_read_back_as_they_were_written(plans: Callable[[str], Plans]) -> None:
    for plan in plans("q4").values():
        assert Plan.from_json(plan.to_json()) == plan
