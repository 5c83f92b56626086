"""Pages that hold what is not finite are told from others, with the layer that began it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.kv.finite import Fault, PageNumbers
from tests.format.cases import Case, cases, what

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


@pytest.mark.parametrize("case", cases("finite"), ids=what)
def test_what_is_not_finite_is_found_where_it_began(case: Case) -> None:
    bad = [tuple(one) for one in case["bad"]]
    pages = [
        page(case["dtype"], *(change for number, *change in bad if number == nth))
        for nth in range(case["pages"])
    ]
    numbers = PageNumbers(GROUP, case["dtype"])
    found = numbers.find(range(case["pages"]), pages.__getitem__)
    assert found == (None if case["fault"] is None else Fault(*case["fault"]))
    wrong = {number for number, *_ in bad}
    assert [numbers.finite(data) for data in pages] == [n not in wrong for n in range(len(pages))]


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
