"""The masks in tests/grammar are what this code makes, as the tab's has to."""

from __future__ import annotations

from tools.make_mask_cases import PATH, written


def test_the_masks_that_both_languages_share_are_up_to_date() -> None:
    assert PATH.read_text("utf-8") == written()
