"""docs/supported.md says what the tables in the code say."""

from __future__ import annotations

import re

import pytest

from edgewise_compiler.models.elsewhere import BEYOND, EVERY_TRAIT
from edgewise_compiler.models.families import FAMILIES
from tools.supported import PATH, page

TEXT = page()


def test_the_page_is_what_the_code_says() -> None:
    assert PATH.read_text("utf-8") == TEXT, "write it again: python -m tools.supported"


@pytest.mark.parametrize(
    "said",
    [
        *(name for family in FAMILIES for name in (*family.architectures, *family.model_types)),
        *(trait.name for trait in EVERY_TRAIT),
        *(name for known in BEYOND for name in known.names),
    ],
)
def test_what_errors_name_is_on_the_page(said: str) -> None:
    assert said in TEXT


def test_every_row_of_a_table_has_its_columns() -> None:
    width = 0
    for line in TEXT.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        assert cells in (0, width) or not width, line
        width = cells
