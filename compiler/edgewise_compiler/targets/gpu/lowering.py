"""What lowering for GPUs knows besides what every lowering does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise_compiler.graph.nodes import Node, Value
from edgewise_compiler.graph.operations import Attention, RopeAppend
from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.division import with_long_segments
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.plan.calls import Argument, Call, Tensor
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.lowering import Lowering
from edgewise_runtime.format.expr import Expr


@dataclass(frozen=True)
class GpuLowering(Lowering):
    """A lowering that also knows its variant.

    Attributes:
        limits: the target's.
        few: whether rows are few: decode with one sequence, prefill of a short chunk.
        near: whether no sequence has more than `NEAR_TOKENS` keys, in decode.
        short: whether all have few enough for their partial results to be kept together.
        joining: whether a sequence has so few segments that linears join them, where they can.
        long_segments: whether attention has long segments in decode, where there is room.
        aliases: values that live in another value's tensor (queries in the projection's output).
        joined: the attention whose segments linears join, by its value.
    """

    variant: Variant
    limits: Limits
    few: bool = False
    near: bool = False
    short: bool = False
    joining: bool = False
    long_segments: bool = False
    aliases: Mapping[str, Value] = field(default_factory=dict)
    joined: Mapping[str, Attention] = field(default_factory=dict)

    @property
    def kv_seen(self) -> str:
        """How kernels see what pages hold."""
        return self.variant.kv_seen

    def value(self, value: Value) -> Tensor:
        """The tensor that holds a graph value."""
        value = self.aliases.get(value.id, value)
        if value.name is not None:
            return self.step_tensor(value.name)
        return Tensor(value.id, "scratch", "float32", (self.row_bound(value), value.width))

    def attention_spec(self, op: Attention) -> AttentionSpec:
        """What a kernel for ``op`` is made for."""
        spec = super().attention_spec(op)
        return with_long_segments(spec, self.limits) if self.long_segments else spec

    def head_norms(self, node: Node[RopeAppend] | Node[Attention]) -> tuple[Tensor, ...]:
        """The weights of norms of heads, if there are any, which the layout has in one tensor."""
        names = (name for name in node.params if name.endswith("q_norm"))
        return tuple(self.param(f"{name.removesuffix('q_norm')}qk_norm.weight") for name in names)


def call_of(
    launch: Launch, arguments: tuple[Argument, ...], label: str, moved: Expr, flops: Expr
) -> Call:
    """A launch of a plan; how much it moves and computes is only told."""
    return Call(launch.function, arguments, label, moved, flops, launch.grid)
