"""The tab's classes of characters are those of the tokenizers package."""

from __future__ import annotations

import pytest

from tools.character_tables import ranges, tables, written


def test_ranges_are_told_by_what_lies_between_them() -> None:
    assert ranges([1, 2, 3, 5, 40, 41]) == "1+2 2 z+1"


@pytest.mark.full
def test_every_table_is_the_package_s() -> None:
    found = tables()
    assert {name: written()[name] for name in found} == found
