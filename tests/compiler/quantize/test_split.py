"""Rows of a matrix in two schemes: which are in which, and what is no such split."""

from __future__ import annotations

import pytest

from edgewise_compiler.quantize import SCHEMES, Split, bands
from edgewise_compiler.quantize.split import scheme_of_rows, schemes_of
from edgewise_runtime.errors import CompileError, UnsupportedError

Q6, Q5 = SCHEMES["q6_nl"], SCHEMES["q5_nl"]
SPLIT = Split(Q6, 128, Q5)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (127, [(Q6, 0, 127)]),
        (128, [(Q6, 0, 128)]),
        (129, [(Q6, 0, 128), (Q5, 128, 129)]),
        (320, [(Q6, 0, 128), (Q5, 128, 320)]),
    ],
)
def test_the_first_rows_are_in_one_scheme_and_the_others_in_another(
    rows: int, expected: list[tuple[object, int, int]]
) -> None:
    assert list(bands(SPLIT, rows)) == expected
    assert [tuple(band) for band in bands(Q5, rows)] == [(Q5, 0, rows)]


def test_rows_know_their_scheme() -> None:
    assert schemes_of(SPLIT) == (Q6, Q5)
    assert [scheme_of_rows(SPLIT, *rows) for rows in ((0, 128), (128, 130))] == [Q6, Q5]
    with pytest.raises(CompileError, match="127 to 129"):
        scheme_of_rows(SPLIT, 127, 129)


def test_splits_are_told_apart_by_name() -> None:
    others = Split(Q6, 192, Q5), Split(Q5, 128, Q6), Q6, Q5
    assert SPLIT.name not in {other.name for other in others}


@pytest.mark.parametrize("rows", [0, -64, 32, 100])
def test_parts_of_other_rows_than_kernels_have_are_refused(rows: int) -> None:
    with pytest.raises(UnsupportedError, match=f" {rows} first rows") as caught:
        Split(Q6, rows, Q5)
    assert caught.value.code == "unsupported.recipe"


def test_integers_beside_floats_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="q6_nl beside f16") as caught:
        Split(Q6, 128, SCHEMES["f16"])
    assert caught.value.code == "unsupported.recipe"
