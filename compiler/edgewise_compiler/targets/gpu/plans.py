"""The plans of a GPU program: which operations each has, and which rows it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from edgewise_compiler.graph.hidden import HIDDEN, hidden_graph
from edgewise_compiler.graph.nodes import Graph
from edgewise_compiler.kernels.gpu.attention.decode import NEAR_TOKENS
from edgewise_compiler.plan.calls import PlanCalls
from edgewise_compiler.targets.gpu.attention import joinable_by, together_reach
from edgewise_compiler.targets.gpu.lower import lower_graph
from edgewise_compiler.targets.gpu.lowering import GpuLowering
from edgewise_compiler.targets.gpu.sampling import header_calls, logprobs_calls, sampling_calls

FEW_ROWS = 16  # a prefill of so few rows has tiles of its own
SHORT_TILE = "_few"
NEAR = "_near"  # one sequence of few keys: attention is one launch
JOINED = "_joined"  # one of more keys, which the linear that follows joins
ALL_NEAR = "_all_near"  # several of few keys
ALL_JOINED = "_all_joined"  # several of more, the fewer the longer
TOGETHER = "_together"  # sequences so short that their partial results are kept at the same time

Make = Callable[[str, GpuLowering], PlanCalls]
Choice = tuple[Mapping[str, tuple[int, int]], str]
"""The ranges of symbols for which a plan is run."""


@dataclass(frozen=True)
class PlanSet:
    """The plans of a program, and which of them serve each operation: the first that fits."""

    plans: tuple[PlanCalls, ...]
    entries: Mapping[str, tuple[Choice, ...]]


def plans(
    low: GpuLowering,
    many: Mapping[str, Graph],
    few: Mapping[str, Graph],
    *,
    joining: bool = False,
) -> PlanSet:
    """The plans of a program.

    Args:
        many: the graphs for a prefill's rows, whose norms are launches of their own.
        few: all graphs for decoding, norms folded into linears.
        joining: whether linears join the segments of sequences, as many as `Joining` has, which
            are long ones then where there is room.
    """
    low = replace(low, long_segments=joining)
    rows, batch = low.bounds.rows, low.bounds.batch
    short = replace(low, few=True)
    together = together_reach(low, few["layers"])
    joinable = joinable_by(low, few["layers"], together) if joining else {}
    if joinable.get(1) == low.bounds.context:
        short = replace(short, joining=True)
    if joinable.get(batch) == low.bounds.context:
        low = replace(low, joining=True)
    embedding = lower_graph(low, many["embed"], many_rows=True)
    hidden = lower_graph(low, hidden_graph(many["head"]), many_rows=True)
    made = [PlanCalls("embed", embedding), PlanCalls(HIDDEN, hidden)]
    entries: dict[str, tuple[Choice, ...]] = {
        "embed": (({"n": (1, rows)}, "embed"),),
        HIDDEN: (({"r": (1, batch)}, HIDDEN),),
        "sample": (({"b": (1, batch)}, "sample"),),
        "logprobs": (({"b": (1, batch)}, "logprobs"),),
    }

    def versions(operation: str, symbol: str, few_most: int, most: int, make: Make) -> None:
        """Two plans of one operation: for few rows, and where there can be more of them."""
        chosen: list[Choice] = [({symbol: (1, min(few_most, most))}, operation + SHORT_TILE)]
        made.append(make(operation + SHORT_TILE, short))
        if most > few_most:
            chosen.append(({symbol: (1, most)}, operation))
            made.append(make(operation, low))
        entries[operation] = tuple(chosen)

    if low.variant.serial:
        # Its norms are launches of their own: every thread of a linear would repeat them.
        few = many

    def prefill(name: str, low: GpuLowering) -> PlanCalls:
        return PlanCalls(name, lower_graph(low, many["layers"], many_rows=True))

    def logits(name: str, low: GpuLowering) -> PlanCalls:
        return PlanCalls(name, lower_graph(low, few["head"], many_rows=False))

    def forward(name: str, low: GpuLowering) -> PlanCalls:
        layers = lower_graph(low, few["layers"], many_rows=False)
        head = lower_graph(low, few["head"], many_rows=False)
        return PlanCalls(name, (*embedding, *layers, *head))

    def decode(name: str, low: GpuLowering) -> PlanCalls:
        sampled = sampling_calls(low, low.variant, advance=True)
        calls = (*forward(name, low).calls, *sampled, *header_calls(low))
        return PlanCalls(name, calls, repeats=True)

    def decoding(operation: str, make: Make) -> None:
        """Plans for one sequence and for several, and for those that are short."""
        versions(operation, "b", 1, batch, make)
        if low.variant.serial:
            return
        made.append(make(operation + NEAR, replace(short, near=True)))
        reach = min(NEAR_TOKENS, low.bounds.context)
        near: Choice = ({"b": (1, 1), "t": (1, reach)}, operation + NEAR)
        lone, *others = entries[operation]
        if others and reach < together < low.bounds.context:
            made.append(make(operation + TOGETHER, replace(low, short=True)))
            others.insert(0, ({"b": (1, batch), "t": (1, together)}, operation + TOGETHER))
        # Of as many tokens each, the most sequences.
        widest = {tokens: n for n, tokens in joinable.items() if n > 1 and tokens > reach}
        if widest and not low.joining:
            name = operation + ALL_JOINED
            made.append(make(name, replace(low, short=True, joining=True)))
            others[:0] = [({"b": (1, n), "t": (1, tokens)}, name) for tokens, n in widest.items()]
        if others:
            made.append(make(operation + ALL_NEAR, replace(low, near=True)))
            others.insert(0, ({"b": (1, batch), "t": (1, reach)}, operation + ALL_NEAR))
        joined: tuple[Choice, ...] = ()
        if reach < joinable.get(1, 0) < low.bounds.context:
            # With the partial results, and so the kernels, of several where they have room.
            kept = joinable[1] <= together
            made.append(make(operation + JOINED, replace(short, short=kept, joining=True)))
            joined = (({"b": (1, 1), "t": (1, joinable[1])}, operation + JOINED),)
        entries[operation] = (near, *joined, lone, *others)

    if low.variant.serial:
        made.append(prefill("prefill", low))
        entries["prefill"] = (({"n": (1, rows)}, "prefill"),)
    else:
        versions("prefill", "n", FEW_ROWS, rows, prefill)
    versions("logits", "r", 1, batch, logits)
    decoding("decode", decode)
    decoding("forward", forward)
    made.append(PlanCalls("sample", sampling_calls(low, low.variant, advance=False)))
    made.append(PlanCalls("logprobs", logprobs_calls(low)))
    return PlanSet(tuple(made), entries)
