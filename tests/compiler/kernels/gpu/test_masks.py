"""Sampling under masks on the GPU: of a masked row only tokens are drawn whose bit is 1."""

from __future__ import annotations

import pytest

from edgewise_runtime.format.abi import NOT_FINITE
from tests.compiler.kernels.cpu.test_sample import LARGE, SMALL
from tests.compiler.kernels.gpu.test_sample import B, each_variant, run
from tests.compiler.kernels.mask_cases import (
    MASKS,
    beside,
    masked_rows,
    references,
    undrawable_rows,
)
from tests.compiler.kernels.sampling_batch import Row

pytestmark = pytest.mark.sampled(one_in=16, covering=False)


def tokens(rows: list[Row], *, subgroups: bool) -> list[int]:
    groups = [rows[i : i + B] for i in range(0, len(rows), B)]
    return [token for group in groups for token in run(group, subgroups=subgroups)]


@pytest.mark.landing
@each_variant
@pytest.mark.parametrize("V", [SMALL, LARGE])
@pytest.mark.parametrize("mask", MASKS)
def test_a_masked_row_draws_what_is_allowed(mask: str, V: int, subgroups: bool) -> None:
    rows = masked_rows(mask, V)
    assert tokens(rows, subgroups=subgroups) == references(rows)


@pytest.mark.landing
@each_variant
@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_nothing_is_drawn_where_no_token_is_left_or_a_logit_is_not_finite(
    V: int, subgroups: bool
) -> None:
    rows = undrawable_rows(V)
    assert tokens(rows, subgroups=subgroups) == [NOT_FINITE] * len(rows)


@pytest.mark.landing
@each_variant
@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_free_rows_draw_the_same_beside_masked_ones(V: int, subgroups: bool) -> None:
    free, mixed = beside(V)
    together = tokens(mixed, subgroups=subgroups)
    assert together[::2] == tokens(free, subgroups=subgroups) == references(free)
