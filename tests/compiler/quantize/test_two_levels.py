"""Groups whose scale and minimum are integers under a unit for eight of them."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.quantize.codes import CodedRows
from edgewise_compiler.quantize.two_levels import group_numbers
from edgewise_runtime.errors import CheckpointError

Q4K = SCHEMES["q4k"]


def test_codes_and_numbers_of_a_gguf_file_mean_to_the_bit_what_they_mean_there() -> None:
    rng = np.random.default_rng(1)
    count = 40
    d, dmin = (rng.standard_normal(count).astype(np.float16) for _ in range(2))
    scale, minimum = (rng.integers(0, 64, (count, 8), np.uint8) for _ in range(2))
    codes = rng.integers(0, 16, (count, 4, 2, 32), np.uint8)
    # Six bits of each of the first four, and the high ones of the last four above them.
    first = [x[:, :4] | x[:, 4:] >> 4 << 6 for x in (scale, minimum)]
    last = scale[:, 4:] & 15 | (minimum[:, 4:] & 15) << 4
    blocks = np.concatenate(
        [
            d.view(np.uint8).reshape(count, 2),
            dmin.view(np.uint8).reshape(count, 2),
            *first,
            last,
            (codes[:, :, 0] | codes[:, :, 1] << 4).reshape(count, 128),
        ],
        axis=1,
    )
    groups = {"scale": scale, "min": minimum, "d": d[:, None], "dmin": dmin[:, None]}
    found = Q4K.dequantize(CodedRows(codes.reshape(count, 256), groups))
    np.testing.assert_array_equal(found, dequantize(blocks, GGMLQuantizationType.Q4_K))


def test_values_come_back_within_what_their_codes_and_numbers_are_rounded_by() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((64, 512), dtype=np.float32)
    rows *= np.exp2(rng.integers(-6, 6, (64, 1))).astype(np.float32)
    rows[5] = np.abs(rows[5])
    coded = Q4K.quantize(rows.copy())
    shapes = {name: (values.dtype, values.shape) for name, values in coded.groups.items()}
    integers, halves = (np.dtype(np.uint8), (64, 16)), (np.dtype(np.float16), (64, 2))
    assert shapes == {"scale": integers, "min": integers, "d": halves, "dmin": halves}
    assert coded.codes.dtype == np.uint8
    step, _ = group_numbers(coded)
    units = (15 * coded.groups["d"].astype(np.float32) + coded.groups["dmin"]).repeat(8, axis=1)
    # Half a step; at the ends half a unit of the minimum, and fifteen times half that of the scale.
    most = (step + units).repeat(32, axis=1) * 0.5 * 1.01
    assert (np.abs(Q4K.dequantize(coded) - rows) <= most).all()
    # Minima have no sign: nothing but positive values is counted from zero.
    assert not coded.groups["min"][5].any()
    assert not coded.groups["dmin"][5].any()


@pytest.mark.parametrize("value", [0.0, 1e-45, 1e-12])
def test_groups_of_zeros_are_zero(value: float) -> None:
    coded = Q4K.quantize(np.full((16, 256), value, np.float32))
    assert not Q4K.dequantize(coded).any()
    assert not any(coded.groups[name].any() for name in ("d", "dmin"))


@pytest.mark.parametrize(("value", "what"), [(6.3e7, "scale"), (-4.2e6, "minimum")])
def test_weights_beyond_float16s_units_are_refused(value: float, what: str) -> None:
    rows = np.zeros((16, 256), np.float32)
    rows[3, 40] = value
    with pytest.raises(CheckpointError, match=what) as caught:
        Q4K.quantize(rows)
    assert caught.value.code == "checkpoint.range"
