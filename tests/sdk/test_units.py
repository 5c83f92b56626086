"""Numbers in words."""

from __future__ import annotations

import pytest

from edgewise.units import size, weights


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536 << 10, "1.5 MiB"),
        (1 << 40, "1.0 TiB"),
        (1 << 52, "4096.0 TiB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_fits(count: int, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (12, "12"),
        (1200, "1.2K"),
        (596_049_920, "596.0M"),
        (4_022_468_096, "4.0B"),
    ],
)
def test_numbers_of_weights_are_told_as_models_are_named(count: int, words: str) -> None:
    assert weights(count) == words
