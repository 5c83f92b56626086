"""Pages that hold what is not finite are told from others, with the layer that began it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.kv.finite import Fault, PageNumbers

LAYERS, HEADS, DIM, TOKENS = 3, 2, 4, 16
GROUP = StateGroup(
    kind="paged",
    layers=tuple(range(LAYERS)),
    window=None,
    page_tokens=TOKENS,
    kv_heads=HEADS,
    head_dim=DIM,
    buffers=tuple(f"kv.{i}" for i in range(LAYERS)),
    scales=tuple(f"kv_scale.{i}" for i in range(LAYERS)),
)
DTYPES = ("float16", "float32", "int8")


def page(dtype: str, *changes: tuple[int, str, int]) -> bytes:
    """A page of numbers, of which so many keys or values (or of codes, scales) of a layer are not
    finite."""
    codes = dtype == "int8"
    numbers = np.linspace(-65504, 65504, 2 * HEADS * DIM * TOKENS)
    scales = np.full((HEADS, TOKENS, 2), 65504, np.float16)
    kept: list[npt.NDArray[Any]] = []
    for layer in range(LAYERS):
        array = scales.copy() if codes else numbers.astype(dtype).reshape(2, -1)
        for where, part, count in changes:
            if where == layer:
                which = int(part == "values")
                flat = array[..., which].reshape(-1).copy() if codes else array[which]
                flat[:count] = np.nan if where else np.inf
                if codes:
                    array[..., which] = flat.reshape(HEADS, TOKENS)
        kept.append(array)
    before = np.full(LAYERS * numbers.size, -1, np.int8).tobytes() if codes else b""
    return before + b"".join(array.tobytes() for array in kept)


def whole(dtype: str) -> int:
    """Numbers of a token's key, or its scales."""
    return HEADS if dtype == "int8" else HEADS * DIM


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_page_of_numbers_is_finite(dtype: str) -> None:
    assert PageNumbers(GROUP, dtype).finite(page(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("part", ["keys", "values"])
def test_one_number_that_is_not_is_found(dtype: str, layer: int, part: str) -> None:
    numbers = PageNumbers(GROUP, dtype)
    data = page(dtype, (layer, part, 1))
    assert not numbers.finite(data)
    assert numbers.find([5], lambda page: data) == Fault(0, layer, part)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_layer_that_was_given_what_is_not_finite_has_it_in_keys_and_values(dtype: str) -> None:
    count = whole(dtype)
    data = page(dtype, (1, "keys", count), (1, "values", count), (2, "keys", count))
    assert PageNumbers(GROUP, dtype).find([5], lambda page: data) == Fault(0, 1, "both")


class Pages:
    """Pages of which some hold what is not finite, and how many were looked at."""

    def __init__(self, bad: range, *changes: tuple[int, str, int]) -> None:
        self.bad, self.data = bad, {True: page("float16", *changes), False: page("float16")}
        self.looked = 0

    def __call__(self, number: int) -> bytes:
        self.looked += 1
        return self.data[number in self.bad]


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_the_first_page_is_found_by_looking_at_few(count: int) -> None:
    for first in range(count):
        pages = Pages(range(first, count), (0, "keys", 1), (1, "keys", 2))
        found = PageNumbers(GROUP, "float16").find(range(count), pages)
        assert found == Fault(first, 0, "keys")
        assert pages.looked <= count.bit_length() + 2


def test_a_fault_of_the_last_layer_is_found_though_later_pages_are_finite() -> None:
    for first in range(9):
        pages = Pages(range(first, first + 1), (2, "values", 1))
        found = PageNumbers(GROUP, "float16").find(range(9), pages)
        assert found == Fault(first, 2, "values")


def test_where_all_is_finite_there_is_no_fault() -> None:
    good = page("float16")
    assert PageNumbers(GROUP, "float16").find(range(9), lambda page: good) is None
    assert PageNumbers(GROUP, "float16").find([], lambda page: good) is None
