"""Codes that name a table's values: the nearest ones, under a scale with the extreme's sign."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.quantize import SCHEMES, TABLES, ZERO_POINT, table_bytes
from tests.compiler.kernels.reference import INTEGERS

each_table = pytest.mark.parametrize("name", TABLES)


def steps_of(name: str) -> NDArray[np.float32]:
    return np.array(TABLES[name], np.float32)


@each_table
def test_tables_are_those_of_the_formats(name: str) -> None:
    np.testing.assert_array_equal(TABLES[name], INTEGERS[name])
    assert table_bytes(name) == tuple(INTEGERS[name] + ZERO_POINT[name])
    assert min(table_bytes(name) or ()) == 0
    assert table_bytes("q4") is None


@each_table
def test_codes_are_the_nearest_under_the_stored_scale(name: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((96, 128), dtype=np.float32)
    rows *= np.exp2(rng.integers(-6, 6, (96, 1))).astype(np.float32)
    coded = SCHEMES[name].quantize(rows.copy())
    scale = coded.groups["scale"].astype(np.float64).repeat(32, axis=1)
    distance = np.abs(rows[..., None] - scale[..., None] * steps_of(name))
    chosen = np.take_along_axis(distance, coded.codes[..., None].astype(int), axis=2)[..., 0]
    assert (chosen <= distance.min(axis=2) + 1e-6 * np.abs(scale)).all()
    np.testing.assert_array_equal(
        SCHEMES[name].dequantize(coded), scale * steps_of(name)[coded.codes]
    )
    # What was quantized once is so again: codes that stand for the same are one.
    values = SCHEMES[name].dequantize(coded)
    again = SCHEMES[name].quantize(values.copy())
    np.testing.assert_array_equal(SCHEMES[name].dequantize(again), values)


@each_table
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_value_furthest_from_zero_is_exact_whichever_its_sign(name: str, sign: float) -> None:
    rows = np.random.default_rng(2).uniform(-0.15, 0.15, (64, 32)).astype(np.float32)
    rows[:, 9] = sign * -min(TABLES[name]) / 64
    coded = SCHEMES[name].quantize(rows.copy())
    assert (coded.groups["scale"] == np.float16(-sign / 64)).all()
    assert (SCHEMES[name].dequantize(coded)[:, 9] == rows[:, 9]).all()


@each_table
@pytest.mark.parametrize("tiny", [0.0, 1e-45, 1e-12, 2.0**-26])
def test_a_group_too_small_for_its_scale_is_zero(name: str, tiny: float) -> None:
    coded = SCHEMES[name].quantize(np.full((32, 64), tiny, np.float32))
    assert not coded.groups["scale"].view(np.uint16).any()  # no negative zero either
    assert not SCHEMES[name].dequantize(coded).any()
