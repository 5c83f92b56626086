"""Vector operations are exact where they promise it and agree on every instruction set."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.cpu import vector
from edgewise_compiler.kernels.cpu.isa import MACHINES, isa_named
from edgewise_compiler.kernels.function import Arg, block, kernel
from edgewise_runtime.errors import UnsupportedError
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build
from tests.compiler.kernels.reference import same_bits

COUNT = 1024
HALVES = 2**16
FLOATS = ("fma", "exp2", "silu", "ln")


def _floats(isa: str) -> Any:
    def body(a: Any, b: Any, c: Any, *out: Any) -> None:
        with T.serial(COUNT // 16) as i, block("lanes"):
            x, y, z = (vector.let(vector.load(v, i * 16)) for v in (a, b, c))
            positive = vector.let(T.max(x, vector.splat(2.0**-126)))
            results = (
                vector.fma(x, y, z, isa),
                vector.exp2(x, isa),
                vector.silu(x, isa),
                vector.ln(positive, isa),
            )
            for buffer, value in zip(out[:4], results, strict=True):
                vector.store(buffer, value, i * 16)
            vector.store(out[4], vector.rint_bits(x, y, isa), i * 16)
            T.buffer_store(out[5], vector.lane_sum(x), [i])
            T.buffer_store(out[6], vector.lane_max(x), [i])

    inputs = [Arg(name, "float32", (COUNT,)) for name in "abc"]
    outputs = [Arg(name, "float32", (COUNT,)) for name in FLOATS]
    reduced = [Arg(name, "float32", (COUNT // 16,)) for name in ("sums", "largest")]
    return kernel("floats", [*inputs, *outputs, Arg("rint", "int32", (COUNT,)), *reduced], body)


def _halves(isa: str) -> Any:
    def body(half: Any, wide: Any, back: Any, value: Any, narrow: Any) -> None:
        with T.serial(HALVES // 16) as i, block("lanes"):
            vector.store(wide, vector.widen(vector.load(half, i * 16), isa), i * 16)
            vector.store(back, vector.narrow(vector.load(wide, i * 16), isa), i * 16)
            vector.store(narrow, vector.narrow(vector.load(value, i * 16), isa), i * 16)

    dtypes = {"half": "float16", "wide": "float32", "back": "float16"}
    dtypes |= {"value": "float32", "narrow": "float16"}
    return kernel("halves", [Arg(name, dtype, (HALVES,)) for name, dtype in dtypes.items()], body)


TABLE = (7, 0, 255, 128, 127, 3, 3, 200, 1, 254, 64, 65, 90, 12, 77, 129)


def _lookup(isa: str) -> Any:
    def body(codes: Any, whole: Any, single: Any) -> None:
        with block("words"):
            words = vector.let(vector.load(codes, 0))
            vector.store(whole, vector.lookup(words, TABLE, isa), 0)
            for i in range(16):
                found = vector.lookup(vector.let(codes[i]), TABLE, isa)
                T.buffer_store(single, found, [i])

    return kernel("lookup", [Arg(n, "uint32", (16,)) for n in ("codes", "whole", "single")], body)


@cache
def functions(isa: str) -> dict[str, Any]:
    return build([_floats(isa), _halves(isa), _lookup(isa)], isa)


def floats(isa: str, a: Array, b: Array, c: Array) -> dict[str, Array]:
    outputs = {name: aligned(COUNT, "float32") for name in FLOATS}
    outputs["rint"] = aligned(COUNT, "int32")
    outputs |= {name: aligned(COUNT // 16, "float32") for name in ("sum", "max")}
    functions(isa)["floats"](*(aligned_copy(v) for v in (a, b, c)), *outputs.values())
    return outputs


def nasty_floats(seed: int) -> tuple[Array, Array, Array]:
    """Products and addends of all magnitudes, half of them cancelling almost entirely."""
    random = np.random.default_rng(seed)
    a = (random.normal(size=COUNT) * np.exp2(random.integers(-60, 60, COUNT))).astype("float32")
    b = (random.normal(size=COUNT) * np.exp2(random.integers(-60, 60, COUNT))).astype("float32")
    c = -(a.astype("float64") * b) * (
        1 + random.normal(size=COUNT) * np.exp2(-random.integers(0, 60, COUNT))
    )
    c[::2] = random.normal(size=COUNT // 2) * np.exp2(random.integers(-126, 126, COUNT // 2))
    return a, b, c.astype("float32")


def calm_floats(seed: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    x, y, z = random.normal(size=(3, COUNT)).astype("float32") * np.float32(20)
    return x, y, z


def test_fma_rounds_the_exact_result_once(isa: str) -> None:
    a, b, c = nasty_floats(1)
    got = floats(isa, a, b, c)["fma"]
    for x, y, z, result in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(result)) - exact)
        for side in (-np.inf, np.inf):
            other = np.nextafter(result, np.float32(side))
            assert error <= abs(Fraction(float(other)) - exact)


def test_fma_breaks_ties_to_even(isa: str) -> None:
    """1 + 2**-24 lies between 1 and its neighbour; a touch more or less decides."""
    half, touch = np.float32(2.0**-24), np.float32(2.0**-60)
    a, b, c = np.zeros((3, COUNT), "float32")
    a[:3], b[:3], c[:3] = half, [1, 1 + 2**-23, 1 - 2**-23], 1
    a[3:5], b[3:5], c[3:5] = touch, [1, -1], [1 + 2**-23, 1 + 2**-23]
    got = floats(isa, a, b, c)["fma"]
    up = np.float32(1 + 2**-23)
    assert got[:5].tolist() == [1, up, 1, up, up]


def test_fma_passes_infinities_and_nan_on(isa: str) -> None:
    a, b, c = np.ones((3, COUNT), "float32")
    a[:4], c[:4] = [np.inf, -np.inf, 1, np.inf], [1, 1, -np.inf, -np.inf]
    got = floats(isa, a, b, c)["fma"]
    assert got[:3].tolist() == [np.inf, -np.inf, -np.inf]
    assert np.isnan(got[3])


def test_exp2_of_nan_is_nan(isa: str) -> None:
    x = np.zeros(COUNT, "float32")
    x[::3] = np.nan
    np.testing.assert_array_equal(np.isnan(floats(isa, x, x, x)["exp2"]), np.isnan(x))


def test_exp2_of_zero_is_one(isa: str) -> None:
    zeros = np.zeros(COUNT, "float32")
    assert (floats(isa, zeros, zeros, zeros)["exp2"] == 1).all()


def test_exp2_is_precise_and_clamped(isa: str) -> None:
    x = np.linspace(-126, 127, COUNT).astype("float32")
    got = floats(isa, x, x, x)["exp2"]
    # The polynomial's 2e-9 and six roundings, of which the last weighs most: 2**-24.
    assert np.abs(got / np.exp2(x.astype("float64")) - 1).max() < 1e-7
    far = np.full(COUNT, -1e30, "float32")
    assert (floats(isa, far, far, far)["exp2"] == np.float32(2.0**-126)).all()
    assert (floats(isa, -far, far, far)["exp2"] == np.float32(2.0**127)).all()


def test_silu_is_precise(isa: str) -> None:
    x = np.linspace(-60, 60, COUNT).astype("float32")
    exact = x.astype("float64") / (1 + np.exp(-x.astype("float64")))
    # The exponent -x*log2(e) is rounded once: its last place, 2**-18 near 64, is the error.
    assert np.allclose(floats(isa, x, x, x)["silu"], exact, rtol=4e-6, atol=0)


@pytest.mark.parametrize(
    "x",
    [np.geomspace(2.0**-126, 3e38, COUNT), np.linspace(0.6, 1.6, COUNT), np.arange(1, COUNT + 1)],
    ids=["everywhere", "near one", "whole numbers"],
)
def test_ln_is_precise(isa: str, x: Array) -> None:
    x = x.astype("float32")
    got, exact = floats(isa, x, x, x)["ln"], np.log(x.astype("float64"))
    # Near 1 quotient and sum are rounded, 2**-24 each, and the series ends 2e-9 early; a mantissa
    # further off adds the rounding of its denominator.
    assert np.allclose(got, exact, rtol=2e-7, atol=0)
    assert (got[x == 1] == 0).all()


@pytest.mark.parametrize("make", [nasty_floats, calm_floats])
def test_results_equal_their_definition_bit_for_bit(isa: str, make: Any) -> None:
    a, b, c = make(2)
    got = floats(isa, a, b, c)
    rows = a.reshape(-1, 16)
    with np.errstate(over="ignore"):
        assert same_bits(got["fma"], reference.fma(a, b, c))
        assert same_bits(got["exp2"], reference.exp2(a))
        assert same_bits(got["silu"], reference.silu(a))
        assert same_bits(got["ln"], reference.ln(np.maximum(a, np.float32(2.0**-126))))
        assert same_bits(got["sum"], reference.lane_sum(rows))
    assert same_bits(got["max"], rows.max(-1))


def test_rounding_goes_to_the_nearest_integer_and_ties_to_even(isa: str) -> None:
    x = np.repeat(np.arange(-128, 128) / 2, 4).astype("float32")
    got = floats(isa, x, np.ones(COUNT, "float32"), x)["rint"]
    assert same_bits(got, np.rint(x).astype("int32"))


def test_widening_is_exact_for_every_float16(isa: str) -> None:
    half = np.arange(HALVES, dtype="uint16").view("float16")
    wide, back = aligned(HALVES, "float32"), aligned(HALVES, "float16")
    value, narrow = aligned(HALVES, "float32"), aligned(HALVES, "float16")
    functions(isa)["halves"](aligned_copy(half), wide, back, value, narrow)
    number = ~np.isnan(half)
    assert same_bits(wide[number], half[number].astype("float32"))
    assert same_bits(back[number], half[number])
    assert np.isnan(wide[~number]).all()
    assert np.isnan(back[~number]).all()


def test_narrowing_rounds_to_nearest_even(isa: str) -> None:
    random = np.random.default_rng(3)
    value = random.normal(size=HALVES) * np.exp2(random.integers(-30, 20, HALVES))
    # Exact ties between neighbouring float16, subnormal ones included, and the edges of the range.
    half = np.arange(1, 0x7C00, dtype="uint16").view("float16").astype("float64")
    value[: len(half) - 1] = (half[1:] + half[:-1]) / 2
    value[-8:] = [65504, 65519.996, 65520, 65536, -65520, 1e30, np.inf, -np.inf]
    value32 = aligned_copy(value.astype("float32"))
    outputs = [aligned(HALVES, dtype) for dtype in ("float32", "float16", "float16")]
    wide, back, narrow = outputs
    functions(isa)["halves"](aligned(HALVES, "float16"), wide, back, value32, narrow)
    with np.errstate(over="ignore"):
        assert same_bits(narrow, value32.astype("float16"))


def test_intermediate_values_are_not_simplified_away(isa: str) -> None:
    """(x + big) - big drops the low bits of x; over real numbers it would be x."""

    def body(x: Any, y: Any) -> None:
        with block("lanes"):
            big = vector.splat(2.0**20)
            total = vector.let(vector.load(x, 0) + big)
            vector.store(y, total - big, 0)

    name = "keep"
    function = kernel(name, [Arg("x", "float32", (16,)), Arg("y", "float32", (16,))], body)
    x, y = aligned_copy(np.full(16, 1.03, "float32")), aligned(16, "float32")
    build([function], isa)[name](x, y)
    assert (y == 1.0).all()


def test_instruction_sets_agree() -> None:
    first, *others = (floats(isa, *nasty_floats(4)) for isa in RUNNABLE)
    for other in others:
        assert all(same_bits(first[name], other[name]) for name in first)


def test_an_unknown_instruction_set_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="avx1024"):
        isa_named("avx1024")


def test_every_instruction_set_lists_the_flags_it_needs() -> None:
    for isa in (isa for machine in MACHINES.values() for isa in machine):
        needs = {"+" + flag for flag in isa.features}
        assert needs <= {*isa.mattr}, isa.name


def test_bytes_are_looked_up_in_any_table_by_vectors_and_by_single_words(isa: str) -> None:
    codes = np.arange(64, dtype="uint8") % 16
    whole, single = aligned(16, "uint32"), aligned(16, "uint32")
    functions(isa)["lookup"](aligned_copy(codes.view("uint32")), whole, single)
    expected = np.array(TABLE, "uint8")[codes]
    assert same_bits(whole.view("uint8"), expected)
    assert same_bits(single.view("uint8"), expected)
