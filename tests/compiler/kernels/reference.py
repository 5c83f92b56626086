"""The arithmetic of the CPU kernels written down in NumPy, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.compiler.kernels.conftest import Array, aligned_copy

Floats = npt.NDArray[np.float32]

_EXP2 = (
    0.00015353361959569156,
    0.0013398873852565885,
    0.00961843691766262,
    0.055503323674201965,
    0.24022647738456726,
    0.6931471824645996,
    1.0,
)


def f32(value: Any) -> Floats:
    return np.asarray(value, "float32")


def fma(a: Any, b: Any, c: Any) -> Floats:
    """a*b + c rounded once: the sum of the exact product is rounded to odd in between."""
    product = f32(a).astype("float64") * f32(b)
    addend = f32(c).astype("float64")
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    # Where inexact, the neighbour on the error's side, unless the sum is odd already.
    towards = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    even = (total.view("int64") & 1) == 0
    return f32(np.where((error != 0) & even, towards, total))


def lane_sum(values: Array) -> Array:
    """Sum over the last axis, by halves."""
    while (half := values.shape[-1] // 2) > 0:
        values = values[..., :half] + values[..., half:]
    return values[..., 0]


def exp2(x: Any) -> Floats:
    x = np.clip(f32(x), np.float32(-126), np.float32(127))
    whole = np.rint(x)
    power = np.full_like(x, np.float32(_EXP2[0]))
    for term in _EXP2[1:]:
        power = fma(power, x - whole, np.float32(term))
    return np.ldexp(power, whole.astype("int32"))


def silu(x: Any) -> Floats:
    x = f32(x)
    return x / (np.float32(1) + exp2(x * np.float32(-1.4426950408889634)))


def ln(x: Any) -> Floats:
    """ln(x): the exponent, and the atanh series of the mantissa by Horner."""
    x = f32(x)
    exponent = (x.view("int32") - 0x3F3504F3) >> 23
    mantissa = (x.view("int32") - (exponent << 23)).view("float32")
    part = (mantissa - np.float32(1)) / (mantissa + np.float32(1))
    square, twice = part * part, part + part
    series = f32(1 / 9)
    for divisor in (7, 5, 3):
        series = fma(series, square, f32(1 / divisor))
    return fma(exponent, f32(np.log(2)), fma(twice * square, series, twice))


def quantize(x: Array) -> tuple[Array, Array, Array]:
    """Rows of floats as int8 codes, and scales and sums of codes of 32 columns each."""
    groups = f32(x).reshape(len(x), -1, 32)
    largest = np.abs(groups).max(-1, keepdims=True)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.minimum(np.float32(127) / largest, np.finfo("float32").max)
    # The product of two floats is exact in double precision.
    codes = np.rint(groups.astype("float64") * inverse).astype("int8")
    sums = codes.astype("int32").sum(-1, dtype="int32")
    return codes.reshape(x.shape), (largest / np.float32(127))[..., 0], sums


BITS = {
    "q4": 4,
    "q4a": 4,
    "q4k": 4,
    "q5": 5,
    "q6": 6,
    "q8": 8,
    "q4_nl": 4,
    "q5_nl": 5,
    "q6_nl": 6,
    "iq4_nl": 4,
    "mxfp4": 4,
}

INTEGERS = {
    "q4": np.arange(-8, 8),
    "q4a": np.arange(16),
    "q4k": np.arange(16),
    "q5": np.arange(-16, 16),
    "q6": np.arange(-32, 32),
    "q8": np.arange(-128, 128),
    "q4_nl": np.r_[-12:-4:2, -4:5, 6:11:2],
    "q5_nl": np.r_[-24:-8:2, -8:9, 10:23:2],
    "q6_nl": np.r_[-48:-16:2, -16:17, 18:47:2],
    "iq4_nl": np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]),
    "mxfp4": np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]),
}
"""What each code of a scheme stands for, before its group's numbers."""

WITH_MINIMA = ("q4a", "q4k")
"""Schemes whose groups have a minimum beside their scale."""


WITH_BYTES = ("q4_nl", "q5_nl", "q6_nl")
"""Schemes whose scales are bytes of either sign, n for n * (|n| + 128) units of the row."""


def quantize_weight(w: Array, scheme: str) -> tuple[Array, Array]:
    """Codes (uint8, [NP,K]) and groups' numbers of a scheme: float16, [NP,K/32], twice as many with
    minima; those of q4k as words, [NP,K/64], and bytes of scales too, [NP,1+K/128].

    The value furthest from zero becomes the lowest integer, whichever its sign: codes are all there
    are and scales have either sign, which q8 too would have to compute with if a file brought them.
    So it is with minima, which make the lowest value (of every other row the highest) code 0.
    """
    integers = INTEGERS[scheme]
    groups = f32(w).reshape(len(w), -1, 32)
    least = np.zeros_like(groups[..., :1])
    if scheme == "q4k":
        return _quantize_two_levels(groups)
    if scheme in WITH_MINIMA:
        ends = groups.min(-1), groups.max(-1)
        even = np.arange(len(w))[:, None] % 2 == 0
        least = np.where(even, *ends).astype("float16").astype("float32")[..., None]
        scale = ((np.where(even, *ends[::-1]) - least[..., 0]) / 15).astype("float16")
    else:
        furthest = np.abs(groups).argmax(-1)[..., None]
        extreme = np.take_along_axis(groups, furthest, -1)[..., 0]
        scale = (extreme / integers.min()).astype("float16")
    if scheme in WITH_BYTES:
        of_row = f32(np.abs(scale).max(-1, keepdims=True) / np.float32(127 * 255))
        steps = np.abs(scale) / np.where(of_row == 0, 1, of_row)
        nearest = np.abs(steps[..., None] - np.arange(128) * np.arange(128, 256)).argmin(-1)
        numbers = unit_and_bytes(of_row, np.copysign(nearest, scale))
        scale = scales_and_minima(numbers, scheme)[0][:, : groups.shape[1]]
    unit = scale.astype("float32")[..., None]
    steps = np.divide(groups - least, unit, out=np.zeros_like(groups), where=unit != 0)
    codes = np.abs(steps[..., None] - integers).argmin(-1).astype("uint8").reshape(w.shape)
    if scheme in WITH_BYTES:
        return codes, numbers
    numbers = np.stack([scale, -least[..., 0].astype("float16")], axis=2)
    return codes, numbers[:, :, : 1 + (scheme in WITH_MINIMA)].reshape(len(w), -1)


def _quantize_two_levels(groups: Floats) -> tuple[Array, Array]:
    """Scales and minima as multiples, 0 to 63, of the largest of eight over 63."""
    supers = groups.reshape(len(groups), -1, 8, 32)
    low, high = supers.min(-1), supers.max(-1)
    integers, units = [], []
    for values in ((high - low) / 15, -low):
        unit = (np.abs(values).max(-1) / 63).astype("float16")
        over = np.where(unit == 0, 1, unit.astype("float32"))[..., None]
        integers.append(np.clip(np.rint(values / over), 0, 63).astype("uint32"))
        units.append(unit)
    numbers = two_levels(*integers, *units)
    scale, minimum = (each.reshape(supers.shape[:3]) for each in scales_and_minima(numbers, "q4k"))
    steps = (supers + minimum[..., None]) / np.where(scale == 0, 1, scale)[..., None]
    codes = np.clip(np.rint(steps), 0, 15).astype("uint8")
    return codes.reshape(len(groups), -1), numbers


def two_levels(scale: Array, minimum: Array, d: Array, dmin: Array) -> Array:
    """Integers of six bits [NP,K/256,8] and float16 [NP,K/256] as words [NP,K/64]."""
    at = np.arange(0, 32, 4, dtype="uint32")
    high = scale >> 4 | minimum >> 4 << 2
    fours = [np.bitwise_or.reduce(x << at, axis=-1) for x in (scale & 15, minimum & 15, high)]
    halves = d.view("uint16").astype("uint32") | dmin.view("uint16").astype("uint32") << 16
    return np.stack([*fours, halves], axis=-1).astype("uint32").reshape(len(d), -1)


def unit_and_bytes(unit: Array, scale: Array) -> Array:
    """A row's float32 [NP,1], and bytes [NP,K/32] up to whole words behind it, as words."""
    whole = np.pad(scale.astype("int8"), ((0, 0), (0, -scale.shape[1] % 4)))
    return np.concatenate([unit.astype("float32").view("uint32"), whole.view("uint32")], axis=1)


def ones(scheme: str, rows: int, columns: int) -> Array:
    """Numbers that make a weight its code's integer, or that and minima of one."""
    if scheme == "q4k":
        one, half = np.ones((rows, columns // 256, 8), "uint32"), np.ones((rows, columns // 256))
        return two_levels(one, one, half.astype("float16"), half.astype("float16"))
    if scheme in WITH_BYTES:
        return unit_and_bytes(np.full((rows, 1), 1 / 129), np.ones((rows, columns // 32)))
    return np.ones((rows, columns // 32 * (1 + (scheme in WITH_MINIMA))), "float16")


def scales_and_minima(numbers: Array, scheme: str) -> tuple[Floats, Floats]:
    """Groups' numbers by themselves, [NP,K/32] each, of scales in bytes all that the words hold;
    minima are zero where there are none."""
    if scheme in WITH_BYTES:
        units = np.ascontiguousarray(numbers[:, :1]).view("float32")
        bytes_ = np.ascontiguousarray(numbers[:, 1:]).view("int8").astype("float32")
        scale = f32(bytes_ * (np.abs(bytes_) + 128) * units)
        return scale, np.zeros_like(scale)
    if scheme == "q4k":
        words = numbers.reshape(len(numbers), -1, 4, 1)
        low, least, high = (
            words[:, :, i] >> np.arange(0, 32, 4, dtype="uint32") & 15 for i in range(3)
        )
        halves = np.ascontiguousarray(words[:, :, 3]).view("float16").astype("float32")
        each = (low | (high & 3) << 4) * halves[..., :1], (least | high >> 2 << 4) * halves[..., 1:]
        return f32(each[0]).reshape(len(numbers), -1), f32(each[1]).reshape(len(numbers), -1)
    each_group = numbers.astype("float32").reshape(len(numbers), -1, 1 + (scheme in WITH_MINIMA))
    scale = each_group[..., 0]
    return scale, each_group[..., 1] if scheme in WITH_MINIMA else np.zeros_like(scale)


def dequantize_weight(codes: Array, numbers: Array, scheme: str) -> Floats:
    """What codes and numbers stand for, [NP,K]."""
    scale, minimum = scales_and_minima(numbers, scheme)
    groups = INTEGERS[scheme][codes].astype("float32").reshape(len(codes), -1, 32)
    scale, minimum = (each[:, : groups.shape[1], None] for each in (scale, minimum))
    return f32(groups * scale - minimum).reshape(codes.shape)


def panels(values: Array) -> Array:
    """[NP, n] -> [NP/16, n, 16]: sixteen rows beside each other."""
    rows, columns = values.shape
    return aligned_copy(
        np.ascontiguousarray(values.reshape(rows // 16, 16, columns).swapaxes(1, 2))
    )


def pack(codes: Array, bits: int) -> Array:
    """Codes [NP,K] as words [NP/16, K*bits/32, 16] of the ``cpu`` layout."""
    rows = len(codes)
    if bits in (5, 6):
        low = words(codes & 15, 4).reshape(rows, -1, 4 // (bits - 4))
        high = words(codes >> 4, bits - 4).reshape(rows, -1, 1)
        return panels(np.concatenate([low, high], axis=2).reshape(rows, -1))
    return panels(words(codes, bits))


def words(codes: Array, bits: int) -> Array:
    """Codes [NP,K] of 1, 2, 4 or 8 bits as words [NP, K*bits/32]: four columns beside each other,
    the next four above them in each byte."""
    rows, columns = codes.shape
    each = 32 // bits
    shifts = [8 * (i % 4) + bits * (i // 4) for i in range(each)]
    parts = codes.reshape(rows, columns // each, each).astype("uint32") << np.array(
        shifts, "uint32"
    )
    return np.bitwise_or.reduce(parts, axis=-1)


def linear_int(
    codes: tuple[Array, Array, Array],
    weight: Array,
    numbers: Array,
    bias: Array | None,
    scheme: str,
) -> Floats:
    """Quantized rows times quantized weights: groups in order, one fma each, and one a minimum."""
    xq, xs, xc = codes
    scale, minimum = scales_and_minima(numbers, scheme)
    integers = INTEGERS[scheme][weight].astype("int32")
    rows, columns = weight.shape
    total = np.zeros((len(xq), rows), "float32")
    for g in range(columns // 32):
        of = slice(g * 32, g * 32 + 32)
        dots = xq[:, of].astype("int32") @ integers[:, of].T
        total = fma(dots, scale[None, :, g] * xs[:, g, None], total)
        if scheme in WITH_MINIMA:
            sums = f32(-xc[:, g, None]) * xs[:, g, None]
            total = fma(minimum[None, :, g], sums, total)
    return total if bias is None else total + bias


def linear_float(x: Array, weight: Array, bias: Array | None) -> Floats:
    """Floats times floats: columns in order, one fma each."""
    total = np.zeros((len(x), len(weight)), "float32")
    for k in range(weight.shape[1]):
        total = fma(x[:, k, None], weight[None, :, k].astype("float32"), total)
    return total if bias is None else total + bias


def swiglu(y: Array) -> Floats:
    """silu(gate) * up of sums whose panels of 16 alternate gate, up."""
    pairs = y.reshape(len(y), -1, 2, 16)
    return f32(silu(pairs[:, :, 0]) * pairs[:, :, 1]).reshape(len(y), -1)


def same_bits(left: Array, right: Array) -> bool:
    """Equal in shape, type and every bit."""
    return (
        left.shape == right.shape
        and left.dtype == right.dtype
        and left.tobytes() == right.tobytes()
    )
