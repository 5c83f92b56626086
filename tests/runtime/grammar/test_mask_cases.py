"""The masks in tests/grammar are what this code makes, as the tab's has to."""

from __future__ import annotations

import pytest

from tools import make_large_masks
from tools.make_mask_cases import PATH, written


def test_the_masks_that_both_languages_share_are_up_to_date() -> None:
    assert PATH.read_text("utf-8") == written()


@pytest.mark.landing
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
def test_so_are_those_of_a_large_vocabulary(every: int) -> None:
    lines = make_large_masks.PATH.read_text("utf-8").splitlines()[1:-1]
    assert [line.removesuffix(",") for line in lines[::every]] == make_large_masks.written(every)
