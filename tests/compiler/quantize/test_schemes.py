"""Schemes turn rows of floats into codes and back, as near as their codes allow."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.quantize import SCHEMES, CodedRows, find_scheme
from edgewise_runtime.errors import CheckpointError, UnsupportedError

STEPS = {"q8": 127, "q6": 32, "q5": 16, "q4": 8, "q6_nl": 48, "q5_nl": 24, "q4_nl": 12}
"""From zero to the value that is furthest from it."""

ZEROS = {"q8": 128, "q6": 32, "q5": 16, "q4": 8, "q6_nl": 32, "q5_nl": 16, "q4_nl": 8}
"""The code of zero."""

BENDS = {"q6_nl": 16, "q5_nl": 8, "q4_nl": 4}
"""How far from zero integers begin to lie two apart."""

BYTES = tuple(BENDS)
"""Whose scales are bytes under a unit of the row."""

VALUES = {"f32": "float32", "f16": "float16"}
"""What codes are where they are no integers."""


def scales_of(coded: CodedRows) -> NDArray[np.float32]:
    scale = coded.groups["scale"].astype(np.float32)
    if "unit" not in coded.groups:
        return scale
    return scale * (np.abs(scale) + 128) * coded.groups["unit"]


def there_and_back(scheme: str, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return SCHEMES[scheme].dequantize(SCHEMES[scheme].quantize(rows))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_codes_give_back_what_was_quantized_within_the_scheme(scheme: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((96, 256), dtype=np.float32)
    rows *= np.exp2(rng.integers(-6, 6, (96, 1))).astype(np.float32)
    coded = SCHEMES[scheme].quantize(rows.copy())
    assert (coded.codes.dtype, coded.codes.shape) == (VALUES.get(scheme, "uint8"), rows.shape)
    assert tuple(coded.groups) == SCHEMES[scheme].groups
    values = SCHEMES[scheme].dequantize(coded)
    assert (values.shape, values.dtype) == (rows.shape, np.float32)
    error = np.abs(values - rows)
    if scheme == "f32":
        assert not error.any()
    elif scheme == "f16":
        assert (error <= np.abs(rows) * 2.0**-11 + 2.0**-25).all()
    elif scheme in STEPS:
        step = np.abs(scales_of(coded)).repeat(32, axis=1)
        numbers = coded.codes - np.float32(ZEROS[scheme])
        steps = np.where(np.abs(numbers) >= BENDS.get(scheme, np.inf), 2, 1)
        step *= steps
        # Codes of two's complement reach a step less far on the side that the extreme is not on.
        short = (coded.codes == 2 * ZEROS[scheme] - 1) * (scheme != "q8")
        # Half a step, and at the largest value what rounding the scale took away.
        away = np.float32(2.0**-11)
        if scheme in BYTES:  # half of the way to the next byte, of the byte
            byte = np.abs(coded.groups["scale"].astype(np.float32)).repeat(32, axis=1)
            away = (byte + 64.5) / (byte * (byte + 128))
        assert (error <= step * (0.5 + short / 2 + STEPS[scheme] * away) * 1.0001).all()
        assert (error <= step * 0.5 * 1.0001).mean() > 0.95
        again = SCHEMES[scheme].dequantize(SCHEMES[scheme].quantize(values.copy()))
        np.testing.assert_allclose(again, values, rtol=2e-7 if scheme in BYTES else 0)


@pytest.mark.parametrize(("scheme", "bend"), BENDS.items())
def test_steps_are_twice_as_wide_in_the_outer_half_of_codes(scheme: str, bend: int) -> None:
    codes = np.arange(64, dtype=np.uint8)[None] % (4 * bend)
    unit = np.full((1, 1), 2 / 129, np.float32)
    coded = CodedRows(codes, {"scale": np.full((1, 2), -1, np.int8), "unit": unit})
    integers = SCHEMES[scheme].dequantize(coded)[0, : 4 * bend] / -2
    np.testing.assert_array_equal(integers[bend : 3 * bend + 1], np.arange(-bend, bend + 1))
    np.testing.assert_array_equal(np.diff(integers[: bend + 1]), 2)
    np.testing.assert_array_equal(np.diff(integers[3 * bend :]), 2)


@pytest.mark.parametrize("scheme", ["q6", "q5", "q4"])
@pytest.mark.parametrize("extreme", [1.0, -1.0])
def test_the_value_furthest_from_zero_has_the_lowest_code_whichever_its_sign(
    scheme: str, extreme: float
) -> None:
    steps, scale = STEPS[scheme], np.float32(extreme / -STEPS[scheme])
    codes = np.random.default_rng(4).integers(0, 2 * steps, (64, 32), np.uint8)
    codes[:, 7] = 0
    coded = SCHEMES[scheme].quantize((codes.astype(np.float32) - steps) * scale)
    assert (coded.groups["scale"] == scale).all()
    np.testing.assert_array_equal(coded.codes, codes)


@pytest.mark.parametrize(("scheme", "zero"), ZEROS.items())
def test_a_group_of_zeros_is_zero(scheme: str, zero: int) -> None:
    coded = SCHEMES[scheme].quantize(np.zeros((32, 64), np.float32))
    assert (coded.codes == zero).all()
    assert not any(array.tobytes().strip(b"\0") for array in coded.groups.values())
    assert not SCHEMES[scheme].dequantize(coded).any()


@pytest.mark.parametrize(("scheme", "limit"), STEPS.items())
@pytest.mark.parametrize("tiny", [1e-45, 1e-12, 2.0**-26])
def test_a_group_too_small_for_its_scale_is_zero(scheme: str, limit: int, tiny: float) -> None:
    if scheme in BYTES:
        tiny *= 2.0**-100  # A row's unit is a float32.
    rows = np.full((16, 32), tiny * limit, np.float32)
    rows[::2] *= -1
    coded = SCHEMES[scheme].quantize(rows)
    assert not any(array.tobytes().strip(b"\0") for array in coded.groups.values())
    assert not SCHEMES[scheme].dequantize(coded).any()


@pytest.mark.parametrize("scheme", BYTES)
@pytest.mark.parametrize(("smaller", "within"), [(4, 0.03), (16, 0.1), (100, 0.5)])
def test_scales_in_bytes_keep_groups_far_smaller_than_others_of_their_row(
    scheme: str, smaller: float, within: float
) -> None:
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((64, 64), np.float32)
    rows[:, 32:] /= np.float32(smaller)
    scale = np.abs(scales_of(SCHEMES[scheme].quantize(rows.copy())))[:, 1]
    furthest = np.abs(rows[:, 32:]).max(axis=1) / np.float32(STEPS[scheme])
    np.testing.assert_allclose(scale, furthest, rtol=within)


@pytest.mark.parametrize(("scheme", "limit"), STEPS.items())
@pytest.mark.parametrize("value", [1.0, -3.0, 2.0**-14, 1000.0])
def test_a_constant_group_is_exact_to_its_scale(scheme: str, limit: int, value: float) -> None:
    values = there_and_back(scheme, np.full((16, 32), value, np.float32))
    scale = np.float32(abs(value)) / np.float32(limit)
    if scheme in BYTES:
        scale = scale / np.float32(127 * 255) * np.float32(127 * 255)
    else:
        scale = np.float32(np.float16(scale))
    assert (values == np.float32(np.sign(value)) * scale * np.float32(limit)).all()
    assert values[0, 0] == pytest.approx(value, rel=1e-3 if abs(value) > 0.01 else 0.02)


@pytest.mark.parametrize(
    ("scheme", "limit"), [each for each in STEPS.items() if each[0] not in BYTES]
)
def test_a_scale_rounded_down_clips_instead_of_wrapping(scheme: str, limit: int) -> None:
    # 1.4 steps of float16's smallest number round to one, so max|w| / scale is beyond the limit.
    rows = np.full((16, 32), 1.4 * 2.0**-24 * limit, np.float32)
    values = there_and_back(scheme, rows)
    assert (values == np.float32(limit * 2.0**-24)).all()


@pytest.mark.parametrize(
    ("scheme", "largest", "beyond"),
    [
        ("f16", 65504.0, 65536.0),
        ("q8", 8.3e6, 8.4e6),
        ("q6", 2.09e6, 2.11e6),
        ("q5", 1.04e6, 1.06e6),
        ("q4", 5.2e5, 5.3e5),
        ("q6_nl", 3.1e6, 3.2e6),
        ("q5_nl", 1.5e6, 1.6e6),
        ("q4_nl", 7.8e5, 7.9e5),
        ("q4a", 9.8e5, 9.9e5),
        ("iq4_nl", 8.3e6, 8.4e6),
        ("mxfp4", 7.8e5, 7.9e5),
    ],
)
def test_weights_beyond_a_scheme_are_refused(scheme: str, largest: float, beyond: float) -> None:
    rows = np.ones((16, 64), np.float32)
    rows[11, 5] = largest
    SCHEMES[scheme].quantize(rows.copy())
    rows[11, 5] = beyond
    with pytest.raises(CheckpointError, match="65504") as caught:
        SCHEMES[scheme].quantize(rows)
    assert caught.value.code == "checkpoint.range"
    assert "f32" in caught.value.remedy


def test_an_unknown_scheme_lists_those_there_are() -> None:
    known = "f32, f16, q8, q6, q6_nl, q5, q5_nl, q4, q4_nl, q4a, q4k, iq4_nl, mxfp4"
    with pytest.raises(UnsupportedError, match=known):
        find_scheme("q3")
    assert find_scheme("q4").arithmetic == "w4a8"
