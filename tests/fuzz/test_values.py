"""Changes of JSON make no more of it than can be written."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.mutate.values import changed


def weight(value: Any, known: dict[int, int]) -> int:
    """Characters and values, those that are shared as often as they are written."""
    if id(value) not in known:
        inner = list(value.values()) if isinstance(value, dict) else value
        if isinstance(value, str):
            known[id(value)] = 1 + len(value)
        elif isinstance(value, dict | list):
            known[id(value)] = 1 + sum(weight(each, known) for each in inner)
        else:
            known[id(value)] = 1
    return known[id(value)]


def test_what_is_repeated_and_repeated_again_can_still_be_written() -> None:
    most = 0
    for seed in range(100):
        rng, value = Random(seed), {"a": [[["x" * 1000]]], "b": [[[["y"]]]]}
        for _ in range(12):
            value = changed(rng, value)
        most = max(most, weight(value, {}))
    assert 1 << 20 < most < 1 << 28
