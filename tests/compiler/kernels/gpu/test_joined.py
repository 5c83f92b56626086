"""A linear that joins the parts of attention itself gives the bits of a launch for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.joined import (
    JOINED_BYTES,
    JOINED_SEGMENTS,
    Joined,
    Joining,
)
from edgewise_compiler.kernels.gpu.attention.merge import attention_merge, part_elements
from edgewise_compiler.kernels.gpu.attention.shares import whole
from edgewise_compiler.kernels.gpu.limits import LEAST, check_limits
from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.numbers import LONG_SEGMENTS, SEGMENT
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import KV_LEN, ROWS, TABLE_HEADER
from tests.compiler.kernels.gpu.packing import pack
from tests.compiler.kernels.paged import Array
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=100, covering=False)

N, B, PAGES, OUTPUTS = 9, 3, 200, 96
# The last has more columns than a linear has in shared memory at once.
HEADS = [(6, 64), (2, 80), (2, 128), (12, 16), (7, 96), (2, 256), (32, 96)]
LENGTHS = [
    *((length, SEGMENT) for length in (1, 64, 65, 500, JOINED_SEGMENTS * SEGMENT, PAGES * 16)),
    *((length, LONG_SEGMENTS[0]) for length in (256, 257, PAGES * 16)),
]
"""Tokens of the sequence, and of a segment."""


def segments(spec: AttentionSpec, lengths: Sequence[int], seed: int) -> Array:
    """What attention leaves of each sequence's segments, and NaN where it leaves nothing."""
    rng = np.random.default_rng(seed)
    kept = -(-PAGES * 16 // spec.segment)
    part = np.full((B, spec.heads, kept, spec.head_dim + 4), np.nan, "float32")
    assert part.size == part_elements(spec, whole(spec))
    for row, length in enumerate(lengths):
        first = 0 if spec.window is None else max(0, length - spec.window) // spec.segment
        seen = part[row, :, first : -(-length // spec.segment)]
        seen[..., :-4] = rng.normal(size=(*seen.shape[:2], spec.head_dim))
        seen[..., -4] = rng.normal(0, 4, seen.shape[:2])
        seen[..., -3] = rng.uniform(1, 9, seen.shape[:2])
    return part


@pytest.mark.parametrize("subgroups", [False, True])
@pytest.mark.parametrize("scheme", ["q4", "q6", "f16"])
@pytest.mark.parametrize("traits", [{}, {"sinks": True}, {"window": 300}], ids=str)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("others", [(), (700, 63)], ids=str)
@pytest.mark.parametrize(("length", "segment"), LENGTHS)
def test_it_gives_the_bits_of_two_launches(
    length: int,
    segment: int,
    others: tuple[int, ...],
    heads: tuple[int, int],
    traits: dict[str, object],
    scheme: str,
    subgroups: bool,
) -> None:
    count, dim = heads
    spec = AttentionSpec(N, B, PAGES * 16, count, 1, dim, "float16", 1.0)
    spec = replace(spec, segment=segment, **traits)
    most = segments_joined(spec)
    lengths = [min(tokens, most * segment) for tokens in (length, *others)]
    live = len(lengths)
    part = segments(spec, lengths, seed=length)
    table = np.zeros((B, TABLE_HEADER + PAGES), "int32")
    table[:live, KV_LEN] = np.subtract(lengths, 1)
    rng = np.random.default_rng(2)
    sinks = [rng.normal(size=count).astype("float32")] if spec.sinks else []
    step = step_array(live, live, live, max(lengths))
    K = count * dim
    packed, _ = pack(scheme, rng.standard_normal((OUTPUTS, K), np.float32))
    out = rng.standard_normal((N, OUTPUTS), np.float32)
    linear = PartSpec(N, OUTPUTS, K, scheme, "add", False, ROWS, live=B, width=OUTPUTS)
    symbols = {"n": live, "b": live, "r": live, "t": max(lengths)}

    x = np.full((N, K), np.nan, "float32")
    *_, x, _ = run(attention_merge(spec), [part, table, *sinks, x, step], **symbols)
    assert np.isfinite(x[:live]).all()
    plain = matvec(linear, batch=live, subgroups=subgroups)
    expected = run(plain, [x, *packed, out, step], **symbols)[-2]
    source = Joined(spec, whole(spec), most)
    joining = matvec(linear, batch=1, subgroups=subgroups, source=source)
    together = run(joining, [part, table, *sinks, *packed, out, step], **symbols)[-2]
    assert together.tobytes() == expected.tobytes()


@pytest.mark.parametrize("subgroups", [False, True])
@pytest.mark.parametrize("scheme", ["f32", "q4", "q4k"])
@pytest.mark.parametrize("heads", [(32, 96), (24, 128), (64, 64), (75, 256), (64, 128)])
def test_it_has_room_on_every_target(heads: tuple[int, int], scheme: str, subgroups: bool) -> None:
    count, dim = heads
    joined = joined_by(count, dim)
    assert joined.fits
    linear = PartSpec(N, 512, count * dim, scheme, "add", False, ROWS, live=B, width=512)
    check_limits(matvec(linear, batch=1, subgroups=subgroups, source=joined).function, LEAST)


def test_so_many_heads_have_no_room() -> None:
    assert not joined_by(76, 64).fits
    assert not joined_by(128, 128).fits


@pytest.mark.parametrize("sequences", [1, 2, 3, 8])
def test_all_that_its_workgroups_read_is_bounded(sequences: int) -> None:
    """But for so many segments of one sequence."""
    spec = AttentionSpec(N, B, 1 << 20, 16, 8, 128, "float16", 1.0, segment=LONG_SEGMENTS[0])
    matrix = 1 << 20
    most = Joining(64, matrix).segments(spec, sequences)
    of_segment = 64 * sequences * spec.heads * spec.head_dim * 4
    again = (sequences - 1) * matrix
    assert 0 < most * of_segment + again <= JOINED_BYTES < (most + 1) * of_segment + again
    assert Joining(1024, matrix).segments(spec, sequences) == (16 if sequences == 1 else 0)


def joined_by(heads: int, dim: int) -> Joined:
    spec = AttentionSpec(N, B, PAGES * 16, heads, 1, dim, "float16", 1.0)
    return Joined(spec, whole(spec), segments_joined(spec))


def segments_joined(spec: AttentionSpec) -> int:
    """By a linear whose workgroups are not too many for anything but shared memory."""
    return min(Joining(1, 0).segments(spec), -(-spec.context // spec.segment))
