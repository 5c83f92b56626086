"""sample under masks: of a row that is masked only tokens are drawn whose bit is 1."""

from __future__ import annotations

import pytest

from edgewise_runtime.format.abi import NOT_FINITE
from tests.compiler.kernels.conftest import RUNNABLE
from tests.compiler.kernels.cpu.test_sample import LARGE, SMALL
from tests.compiler.kernels.mask_cases import (
    MASKS,
    beside,
    masked_rows,
    references,
    undrawable_rows,
)
from tests.compiler.kernels.sampling_batch import Row, run

pytestmark = pytest.mark.sampled(one_in=12)

B = 8


def tokens(rows: list[Row], isa: str) -> list[int]:
    return [token for i in range(0, len(rows), B) for token in run(B, rows[i : i + B], isa)]


@pytest.mark.quick(cases=3)
@pytest.mark.parametrize("V", [SMALL, LARGE])
@pytest.mark.parametrize("mask", MASKS)
def test_a_masked_row_draws_what_is_allowed(mask: str, V: int, isa: str) -> None:
    rows = masked_rows(mask, V)
    expected = references(rows)
    assert tokens(rows, isa) == expected
    assert all(
        token in row.request.allowed
        for token, row in zip(expected, rows, strict=True)
        if row.request.allowed is not None and token != NOT_FINITE
    )


@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_nothing_is_drawn_where_no_token_is_left_or_a_logit_is_not_finite(V: int, isa: str) -> None:
    rows = undrawable_rows(V)
    assert tokens(rows, isa) == references(rows) == [NOT_FINITE] * len(rows)


@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_free_rows_draw_the_same_beside_masked_ones(V: int) -> None:
    free, mixed = beside(V)
    assert run(B, mixed, RUNNABLE[0])[::2] == run(B, free, RUNNABLE[0]) == references(free)
