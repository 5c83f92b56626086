"""Attention of prefill by tensor cores, executed on the emulator: NumPy's numbers, and a row's bits
in whatever company, tile and row of a fragment it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.tensor import attention_fits, attention_tensor
from edgewise_compiler.targets.cuda.codegen import shader
from edgewise_compiler.targets.cuda.fatbin import fatbin
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.fatbin import read_images, read_uses
from tests.compiler.kernels.attention_cases import (
    Part,
    Story,
    reference,
    same_bits,
    sinks_of,
    spoils,
    story,
    whole,
    with_nan,
    without_later_tokens,
)
from tests.compiler.kernels.gpu.test_attention import CONTEXT, buffers_of, spec_of, split_rows
from tests.compiler.kernels.paged import Array, Heads
from tests.gpu_emulator.execute import EmulatorError, run_shader

TOLERANCE = 2e-3
"""Scores near 1 are sums of products that a query's rounding moves by up to 2^-11 of themselves,
at random; a weight moves as much by its score and as much again by its own rounding. Values are
near 1, and seldom 4. Without rounding it is 1e-5 (tests/compiler/kernels/gpu/test_attention.py)."""

GROUPED = Heads(8, 2, 32)  # the fewest instructions: what the quick suite compiles
SHAPES = [
    GROUPED,
    *(
        pytest.param(heads, marks=pytest.mark.full)
        for heads in (
            Heads(2, 2, 32),  # 16 tokens in a fragment
            Heads(7, 1, 128),  # a tile has a row that is nobody's, a fragment parts of tokens
            Heads(8, 2, 64),
            Heads(3, 1, 96),
            Heads(24, 1, 32),  # a token is in two fragments
            Heads(64, 1, 32),  # a tile has one
        )
    ),
]
each_shape = pytest.mark.parametrize("heads", SHAPES, ids=str)


@dataclass(frozen=True)
class Traits:
    """What attention has beside heads."""

    window: int | None = None
    softcap: float | None = None
    sinks: bool = False

    def tell(self, heads: Heads, tokens: int) -> Story:
        sinks = np.linspace(-4, 24, heads.query, dtype="float32") if self.sinks else None
        plain = story(heads, tokens)
        return replace(plain, window=self.window, softcap=self.softcap, sinks=sinks)


PLAIN = Traits()
TRAITS = [Traits(1), Traits(20), Traits(64, sinks=True), Traits(100, 8.0), Traits(None, 5.0, True)]
each_trait = pytest.mark.parametrize(
    "traits", [PLAIN, *(pytest.param(t, marks=pytest.mark.full) for t in TRAITS)], ids=str
)


def prefill(
    parts: Sequence[Part],
    *,
    seed: int = 0,
    live: int | None = None,
    change: tuple[str, str] | None = None,
) -> list[Array]:
    """Attention of all rows of every part, by a kernel whose text may be changed at a place."""
    inputs, step, out = buffers_of(parts, seed, CONTEXT, live)
    launch = attention_tensor(spec_of(parts[0]))
    made, count = shader(launch.function), 1
    if change is not None:
        source, count = re.subn(*change, made.source, count=1)
        made = replace(made, source=source)
    assert count == 1
    arrays = [*inputs, *sinks_of(parts[0].story), out, step]
    grid = launch.workgroups(n=sum(part.rows for part in parts), b=len(parts))
    *_, out, _ = run_shader(made, arrays, grid)
    return split_rows(out, parts)


def off(parts: Sequence[Part], outputs: Sequence[Array]) -> float:
    """The most that an output is not what NumPy has."""
    pairs = zip(parts, outputs, strict=True)
    return float(max(np.abs(output - reference(part)).max() for part, output in pairs))


def cut(sequence: Story, *ends: int) -> list[Part]:
    """A sequence in parts that end there."""
    starts = (0, *ends[:-1])
    return [Part(sequence, a, b - a) for a, b in zip(starts, ends, strict=True)]


@pytest.mark.landing
@each_shape
def test_rows_equal_numpy(heads: Heads) -> None:
    parts = [Part(story(heads, h + n), h, n) for h, n in [(0, 1), (50, 31), (128, 17), (15, 3)]]
    assert off(parts, prefill(parts)) < TOLERANCE


@each_trait
def test_rows_with_traits_equal_numpy(traits: Traits) -> None:
    parts = [Part(traits.tell(GROUPED, h + n), h, n) for h, n in [(0, 30), (50, 31), (128, 17)]]
    assert off(parts, prefill(parts)) < TOLERANCE


@pytest.mark.full
@pytest.mark.parametrize("traits", TRAITS[2:4], ids=str)
def test_wide_heads_with_traits_equal_numpy(traits: Traits) -> None:
    parts = [Part(traits.tell(Heads(5, 1, 128), h + n), h, n) for h, n in [(0, 70), (50, 31)]]
    assert off(parts, prefill(parts)) < TOLERANCE


@pytest.mark.landing
@each_trait
def test_a_row_has_the_same_bits_wherever_a_prompt_is_cut(traits: Traits) -> None:
    sequence = traits.tell(GROUPED, 150)
    (rows,) = prefill([whole(sequence)])
    cuts = [(1, 63, 64, 150), (15, 32, 97, 150), (16, 17, 128, 150)]
    for ends in cuts:
        same_bits(np.concatenate(prefill(cut(sequence, *ends))), rows)


@pytest.mark.full
@each_shape
def test_a_row_has_the_same_bits_in_every_row_of_a_tile(heads: Heads) -> None:
    """Rows from any position on: the first of them is the tile's first, and so on."""
    sequence = story(heads, 100)
    (rows,) = prefill([whole(sequence)])
    for start in (*range(1, 18), 33, 47, 48, 63, 64, 65, 99):
        [found] = prefill([Part(sequence, start, 100 - start)], seed=start)
        same_bits(found, rows[start:])


@each_shape
def test_a_row_in_a_batch_has_the_bits_it_has_alone(heads: Heads) -> None:
    parts = [Part(story(heads, h + n), h, n) for h, n in [(0, 37), (61, 5), (120, 70), (16, 16)]]
    for part, rows in zip(parts, prefill(parts, seed=1), strict=True):
        same_bits(rows, prefill([part], seed=2)[0])


@pytest.mark.full
@pytest.mark.parametrize("traits", [PLAIN, Traits(20), Traits(100, 8.0)], ids=str)
@pytest.mark.parametrize("poison", [np.nan, np.inf, 6e4])
def test_no_row_has_a_part_of_what_it_does_not_see(traits: Traits, poison: float) -> None:
    """In the tile are rows that see those tokens. NaN times a weight of zero would be NaN."""
    for rows in (1, 3, 30, 110):
        part = Part(traits.tell(GROUPED, 120), 3, rows)
        (clean,) = prefill([part])
        (poisoned,) = prefill([without_later_tokens(part, poison)])
        same_bits(poisoned[0], clean[0])


@pytest.mark.full
@pytest.mark.parametrize("window", [5, 20, 64])
def test_pages_behind_a_window_may_hold_anything(window: int) -> None:
    """They were given back. A row sees as little of what only the rows before it see."""
    told = Traits(window).tell(GROUPED, 150)
    for first in (140, 149):
        behind = replace(told, keys=told.keys.copy(), values=told.values.copy())
        seen = first + 1 - window
        behind.keys[:seen] = behind.values[:seen] = np.nan
        [rows] = prefill([Part(told, first, 150 - first)])
        same_bits(prefill([Part(behind, first, 150 - first)])[0], rows)
        [more] = prefill([Part(behind, first - 9, 159 - first)])
        same_bits(more[9:], rows)


@pytest.mark.landing
@pytest.mark.parametrize("what", ["keys", pytest.param("values", marks=pytest.mark.full)])
def test_what_is_not_finite_spoils_every_row_that_sees_it(what: str) -> None:
    for token in (0, 70, 129):
        part = Part(with_nan(story(GROUPED, 130), what, token), 3, 127)
        spoils(part, what, prefill([part])[0], token)


@pytest.mark.full
def test_queries_may_be_large_and_those_beyond_float16_are_not_made_finite() -> None:
    sequence = story(GROUPED, 20)
    loud = replace(sequence, queries=sequence.queries * np.float32(1e4))
    (rows,) = prefill([whole(loud)])
    assert np.isfinite(rows).all()
    loud.queries[7, 3, 1] = 2e6
    (found,) = prefill([whole(loud)])
    assert np.isnan(found[7, 3]).all()
    found[7, 3] = rows[7, 3]
    same_bits(found, rows)


@pytest.mark.full
def test_sequences_that_have_stopped_or_have_no_rows_are_left_alone() -> None:
    running, stopped = story(GROUPED, 70), story(GROUPED, 30)
    alone, nothing = Part(running, 50, 20), Part(running, 40, 0)
    first, second, middle, last = prefill(
        [Part(stopped, 9, 20, stop=1), nothing, alone, Part(stopped, 3, 20, stop=2)]
    )
    assert np.isnan(first).all()
    assert np.isnan(last).all()
    assert not len(second)
    same_bits(middle, prefill([alone])[0])
    assert all(np.isnan(rows).all() for rows in prefill([alone], live=0))


# --- texts with one thing wrong ------------------------------------------------------------------

WRONG = {
    "a row sees the token after it": (
        r"(const int \w+ = \(\(\w+ \+ \w+\) \+ )1(\) - \w+;)",
        r"\g<1>2\2",
    ),
    "weights of two rows are exchanged": (
        r"(r4\[0\] = make_uint4\()(ew_pack\(.+?\)\)), (ew_pack\(.+?\)\)),",
        r"\1\3, \2,",
    ),
    "a block is left out": (r"if \(\w+ >= 32\) \{", "if (false) {"),
    "the sum is not scaled": (r"(r7\[1\] = __fmaf_rn\(r7\[1\], )\w+", r"\g<1>1.0f"),
    "values are those of the next pair": (r"(s2\[\w+ \+ )9\]", r"\g<1>18]"),
}


def chunks() -> list[Part]:
    return [Part(story(GROUPED, n), 0, n) for n in (60, 100)]


@pytest.mark.full
@pytest.mark.parametrize("what", WRONG)
def test_it_is_seen_where(what: str) -> None:
    parts = chunks()
    assert off(parts, prefill(parts)) < TOLERANCE
    assert off(parts, prefill(parts, change=WRONG[what])) > 10 * TOLERANCE


@pytest.mark.full
@pytest.mark.parametrize("nth", [0, 1])
def test_it_is_seen_where_a_barrier_is_missing(nth: int) -> None:
    place = rf"((?:[\s\S]*?__syncthreads\(\);){{{nth}}}[\s\S]*?)__syncthreads\(\);"
    with pytest.raises(EmulatorError, match="thread"):
        prefill(chunks(), change=(place, r"\1"))


@pytest.mark.full
@pytest.mark.parametrize(
    "change",
    [(r"(const bool \w+ = \w+ )>= 16;", r"\1> 0;"), (r"\? 65535u : 0u", "? 65535u : 65535u")],
    ids=["of all rows", "of a token"],
)
def test_it_is_seen_where_a_row_takes_a_result_that_has_later_values(
    change: tuple[str, str],
) -> None:
    """Its numbers are right, for weights of tokens that it does not see are zero. Its bits are a
    device's own matter, which is seen by numbers whose products with zero are not zero."""
    part = Part(story(GROUPED, 120), 3, 110)
    later = without_later_tokens(part, np.nan)
    same_bits(prefill([later])[0][0], prefill([part])[0][0])
    assert np.isnan(prefill([later], change=change)[0][0]).any()


# --- which kernel, and what a GPU makes of it -----------------------------------------------------


def test_what_it_does_not_have_is_left_to_the_general_kernel() -> None:
    spec = AttentionSpec(512, 8, 4096, 32, 8, 128, "float16", 0.1)
    assert all(attention_fits(replace(spec, head_dim=width)) for width in (32, 64, 96, 128))
    assert not any(attention_fits(replace(spec, head_dim=width)) for width in (16, 80, 160, 256))
    assert attention_fits(replace(spec, window=1024, softcap=50.0, sinks=True))
    assert attention_fits(replace(spec, heads=64, kv_heads=1))
    assert not attention_fits(replace(spec, heads=71, kv_heads=1))
    for kv_dtype in ("float32", "float16x2", "int8"):
        assert not attention_fits(replace(spec, kv_dtype=kv_dtype))

    @dataclass(frozen=True, kw_only=True)
    class Later(AttentionSpec):
        temperature: float = 1.0

    later = Later(512, 8, 4096, 32, 8, 128, "float16", scale=0.1)
    assert attention_fits(later)
    assert not attention_fits(replace(later, temperature=2.0))


def test_heads_that_share_unevenly_are_refused() -> None:
    with pytest.raises(CompileError, match="3 query"):
        attention_tensor(AttentionSpec(1, 1, 16, 3, 2, 64, "float16", 1.0))


@pytest.mark.landing
@pytest.mark.parametrize(
    ("width", "traits"),
    [
        (64, ()),
        pytest.param(128, (), marks=pytest.mark.full),
        pytest.param(64, (128, None, True), marks=pytest.mark.full),
        pytest.param(128, (4096, 50.0, True), marks=pytest.mark.full),
    ],
)
def test_a_kernel_of_a_real_shape_fits_registers(width: int, traits: tuple[int, ...]) -> None:
    spec = AttentionSpec(512, 8, 40960, 32, 8, width, "float16", width**-0.5, *traits)
    made = shader(attention_tensor(spec).function)
    assert made.workgroup == (128, 1, 1)
    cubins = [
        i for i in read_images(made.entry, fatbin(made.entry, made.source)) if i.kind == "cubin"
    ]
    assert [str(image) for image in cubins] == ["sm_80", "sm_90"]
    for image in cubins:
        use = read_uses(made.entry, image)[made.entry]
        assert use.stack == 0
        assert use.registers <= 240  # two workgroups of a multiprocessor's 65536
        assert use.shared <= 36 << 10
