"""Mixtures of experts in the place of a layer's MLP: what they store, and what they compute.

Tensors are named as Qwen's models have them: a router ``mlp.gate``, three projections of each
expert, and of some models those of an expert for every row and of its gate.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgewise_compiler.graph.nodes import GraphBuilder, Value
from edgewise_compiler.graph.operations import Experts, Route
from edgewise_compiler.models.base import (
    LinearSpec,
    Mixture,
    ModelConfig,
    ParamSpec,
    RouterSpec,
)
from edgewise_compiler.models.fields import ConfigFields
from edgewise_runtime.errors import CheckpointError

MAX_EXPERTS = 1 << 10
MAX_WIDTH = 1 << 20


def read_mixture(fields: ConfigFields, layers: int, *, shared: bool) -> Mixture | None:
    """The mixture of a Qwen: all layers that ``decoder_sparse_step`` divides and
    ``mlp_only_layers`` does not name; None where no layer has one.

    Raises:
        CheckpointError: numbers that do not fit each other.
    """
    names = ("num_experts", "num_local_experts")
    counts = [fields.integer(name, 0, MAX_EXPERTS) for name in names if fields.has(name)]
    experts = counts[0] if counts else fields.integer(names[0], 0, MAX_EXPERTS)
    step = fields.integer("decoder_sparse_step", 1, MAX_EXPERTS, 1)
    dense = fields.values.get("mlp_only_layers") or []
    if not isinstance(dense, list) or not all(type(i) is int for i in dense):
        raise _wrong(f"mlp_only_layers is {dense!r}, no list of layers")
    found = tuple(i for i in range(layers) if i not in dense and (i + 1) % step == 0)
    if not experts or not found:
        return None
    chosen = fields.integer("num_experts_per_tok", 1, MAX_EXPERTS)
    if chosen > experts:
        raise _wrong(f"num_experts_per_tok is {chosen} of {experts} experts")
    return Mixture(
        layers=found,
        experts=experts,
        chosen=chosen,
        intermediate=fields.integer("moe_intermediate_size", 1, MAX_WIDTH),
        normalize=fields.flag("norm_topk_prob", False),
        shared=fields.integer("shared_expert_intermediate_size", 1, MAX_WIDTH) if shared else None,
    )


def _wrong(what: str) -> CheckpointError:
    return CheckpointError(f"{what}.", remedy="Correct config.json.", code="checkpoint.config")


def expert_params(cfg: ModelConfig, mixture: Mixture, layer: int) -> Iterator[ParamSpec]:
    """The parameters of the layer's mixture, in the order of execution."""
    ours, theirs = f"layers.{layer}", f"model.layers.{layer}.mlp"
    routers, rows = [f"{theirs}.gate.weight"], [mixture.experts]
    if mixture.shared is not None:
        routers.append(f"{theirs}.shared_expert_gate.weight")
        rows.append(1)
    yield RouterSpec(f"{ours}.router", tuple(routers), tuple(rows), cfg.hidden)

    def linear(name: str, parts: tuple[str, ...], rows: int, k: int) -> LinearSpec:
        sources = tuple(
            f"{theirs}.experts.{e}.{part}_proj.weight"
            for e in range(mixture.experts)
            for part in parts
        )
        heights = (rows,) * len(sources)
        gated = len(parts) > 1
        return LinearSpec(name, sources, heights, k, None, gated, mixture.experts)

    width = mixture.intermediate
    yield linear(f"{ours}.experts.gate_up", ("gate", "up"), width, cfg.hidden)
    yield linear(f"{ours}.experts.down", ("down",), cfg.hidden, width)
    if mixture.shared is not None:
        shared = f"{theirs}.shared_expert"
        both = tuple(f"{shared}.{part}_proj.weight" for part in ("gate", "up"))
        heights = (mixture.shared,) * 2
        yield LinearSpec(f"{ours}.shared.gate_up", both, heights, cfg.hidden, None, True)
        down = (f"{shared}.down_proj.weight",)
        yield LinearSpec(f"{ours}.shared.down", down, (cfg.hidden,), mixture.shared)


def expert_mlp(g: GraphBuilder, cfg: ModelConfig, mixture: Mixture, layer: int, h: Value) -> Value:
    """``sum of weight * down(swiglu(h))`` over the experts of each row."""
    p, chosen, experts = f"layers.{layer}", mixture.chosen, mixture.experts
    shared = mixture.shared is not None
    route = g.route(h, f"{p}.router", Route(experts, chosen, mixture.normalize, shared))
    gate_up = g.experts(h, route, f"{p}.experts.gate_up", Experts(experts, chosen, each=False))
    act = g.swiglu(gate_up, cfg.activation)
    y = g.experts(act, route, f"{p}.experts.down", Experts(experts, chosen, each=True))
    of_all = None
    if shared:
        act = g.swiglu(g.linear(h, f"{p}.shared.gate_up"), cfg.activation)
        of_all = g.linear(act, f"{p}.shared.down")
    return g.combine(y, route, chosen, f"{p}.combine", of_all)
