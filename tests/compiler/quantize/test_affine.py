"""Codes from a group's lowest value up."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.errors import CheckpointError

Q4A = SCHEMES["q4a"]


@pytest.mark.parametrize("offset", [0.0, 40.0, -40.0])
def test_values_come_back_within_half_a_step_wherever_the_group_lies(offset: float) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((96, 128), dtype=np.float32)
    rows *= np.exp2(rng.integers(-6, 6, (96, 1))).astype(np.float32)
    rows += np.float32(offset)
    coded = Q4A.quantize(rows.copy())
    assert (coded.codes.dtype, coded.codes.shape) == (np.uint8, rows.shape)
    assert {name: values.dtype for name, values in coded.groups.items()} == dict.fromkeys(
        ("scale", "min"), np.dtype(np.float16)
    )
    scale, minimum = (coded.groups[name].repeat(32, axis=1) for name in ("scale", "min"))
    error = np.abs(Q4A.dequantize(coded) - rows)
    # Half a step, and at the ends what rounding both numbers to float16 took away.
    ends = np.abs(minimum) + 15 * np.abs(scale.astype(np.float32))
    assert (error <= scale.astype(np.float32) * 0.5 + ends * 2.0**-11).all()
    if not offset:
        each = coded.codes.reshape(96, -1, 32)
        assert not each.min(axis=2).any()
        assert (each.max(axis=2) == 15).all()


def test_every_code_under_numbers_of_float16_survives() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 16, (64, 96)).astype(np.float32)
    codes[:, ::32], codes[:, 1::32] = 0, 15
    scale = rng.integers(1, 8, (64, 1)) / np.float32(16)
    minimum = rng.integers(-64, 64, (64, 1)) / np.float32(8)
    rows = (codes * scale - minimum).astype(np.float32)
    coded = Q4A.quantize(rows.copy())
    np.testing.assert_array_equal(coded.codes, codes)
    np.testing.assert_array_equal(coded.groups["min"], np.tile(minimum, 3))
    np.testing.assert_array_equal(Q4A.dequantize(coded), rows)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 2.0**-14, 1000.0])
def test_a_constant_group_is_its_minimum(value: float) -> None:
    coded = Q4A.quantize(np.full((16, 32), value, np.float32))
    assert not coded.groups["scale"].view(np.uint16).any()
    assert (Q4A.dequantize(coded) == value).all()
    if not value:
        assert not coded.groups["min"].view(np.uint16).any()  # no negative zero either


@pytest.mark.parametrize(("value", "what"), [(7e4, "minimum"), (-7e4, "minimum")])
def test_a_minimum_beyond_float16_is_refused(value: float, what: str) -> None:
    with pytest.raises(CheckpointError, match=what) as caught:
        Q4A.quantize(np.full((16, 32), value, np.float32))
    assert caught.value.code == "checkpoint.range"
