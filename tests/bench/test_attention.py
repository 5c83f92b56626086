"""The attention benchmark asks both kinds of pages the same number of times."""

from __future__ import annotations

import numpy as np

from attention import KINDS, Shape, layer, measure


def test_every_layer_is_timed_in_every_round_but_the_first() -> None:
    shape = Shape(tokens=40, heads=2, kv_heads=1, head_dim=32, layers=3)
    found = measure(shape, rounds=2, patience=0.0)
    assert list(found) == list(KINDS)
    assert all(len(one.seconds) == 6 for one in found.values())
    assert all(one.median > 0 for one in found.values())
    # Three pages of keys and values; a code is half of a float16, and has a share of a scale.
    assert found["float16"].bytes == 3 * 2 * 16 * 32 * 2
    assert found["int8"].bytes == 3 * 2 * 16 * 32 + 3 * 16 * 4


def test_pages_hold_numbers_of_both_signs_under_scales() -> None:
    shape = Shape(tokens=40, heads=2, kv_heads=1, head_dim=32)
    codes, scales = layer(shape, "int8", np.random.default_rng(0))
    assert codes.min() < 0 < codes.max()
    assert (scales.view(np.float16) == np.float16(0.02)).all()
