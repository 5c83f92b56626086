"""How decode attention on GPUs is divided: threads, query heads at once, tokens of a segment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.kernels.numbers import LONG_SEGMENTS

_MOST_THREADS = 128


@dataclass(frozen=True)
class Division:
    """How a workgroup goes about the query heads of a KV head.

    Attributes:
        threads: of a workgroup. A score is added up in as many parts as they are, so they follow
            from nothing that tells one of these kernels from another.
        heads: how many are computed at once.
    """

    threads: int
    heads: int


def division_of(spec: AttentionSpec, limits: Limits, kept: int = 0) -> Division:
    """How shared memory has room for it, the results of ``kept`` segments of each head included."""
    D = spec.head_dim
    group = spec.heads // spec.kv_heads
    space = limits.shared - (0 if lends(spec) else _MOST_THREADS * 4)  # what combining takes

    def heads_in(threads: int, results: int) -> int:
        # Partial scores, q, p, and the maximum and sum of each vector of scores.
        bytes_per_head = threads * 16 + D * 4 + spec.segment * 4 + 2 * spec.segment
        return space // (bytes_per_head + results * (D + 2) * 4)

    few = _MOST_THREADS // 2
    # Each vector of a head needs a thread.
    fits = spec.head_dim > 4 * few or group <= heads_in(_MOST_THREADS, 0)
    threads = _MOST_THREADS if fits else few
    return Division(threads, min(group, heads_in(threads, kept)))


def with_long_segments(spec: AttentionSpec, limits: Limits) -> AttentionSpec:
    """The same in the longest segments that leave its division as it is."""
    longer = (replace(spec, segment=segment) for segment in LONG_SEGMENTS)
    usual = division_of(spec, limits)
    return next((long for long in longer if division_of(long, limits) == usual), spec)


def lends(spec: AttentionSpec) -> bool:
    """Whether the weights of a head have an element for every thread, and so room for what threads
    combine before there are weights."""
    return spec.segment >= _MOST_THREADS
