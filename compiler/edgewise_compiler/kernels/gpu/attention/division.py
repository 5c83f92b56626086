"""How decode attention on GPUs is divided: threads, query heads at once, tokens of a segment."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.kernels.numbers import LONG_SEGMENTS

MOST_THREADS = 128


def heads_in(space: int, threads: int, spec: AttentionSpec, kept: int = 0) -> int:
    """How many query heads fit so many bytes of shared memory, the results of ``kept`` segments of
    each among them."""
    D = spec.head_dim
    # Partial scores, q, p, and the maximum and sum of each vector of scores.
    bytes_per_head = threads * 16 + D * 4 + spec.segment * 4 + 2 * spec.segment
    return space // (bytes_per_head + kept * (D + 2) * 4)


def threads_for(group: int, spec: AttentionSpec, space: int) -> int:
    """Threads of a workgroup. A score is added up in as many parts as they are, so they may follow
    from nothing that tells one of these kernels from another."""
    # Each vector of a head needs a thread.
    few = MOST_THREADS // 2
    fits = spec.head_dim // 4 > few or group <= heads_in(space, MOST_THREADS, spec)
    return MOST_THREADS if fits else few


def with_long_segments(spec: AttentionSpec, limits: Limits) -> AttentionSpec:
    """The same in the longest segments for which a workgroup has as many threads and query heads at
    once as for `SEGMENT`."""
    group = spec.heads // spec.kv_heads

    def division(spec: AttentionSpec) -> tuple[int, int]:
        space = space_of(spec, limits)
        threads = threads_for(group, spec, space)
        return threads, min(group, heads_in(space, threads, spec))

    longer = (replace(spec, segment=segment) for segment in LONG_SEGMENTS)
    return next((long for long in longer if division(long) == division(spec)), spec)


def space_of(spec: AttentionSpec, limits: Limits) -> int:
    """Bytes of shared memory, without what combining takes unless weights have room for it."""
    return limits.shared - (0 if lends(spec) else MOST_THREADS * 4)


def lends(spec: AttentionSpec) -> bool:
    """Whether the weights of a head have an element for every thread."""
    return spec.segment >= MOST_THREADS
