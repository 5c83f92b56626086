"""The cases in tests/calls/grammars are what this code makes of them, as the tab's has to."""

from __future__ import annotations

import pytest

from tools.make_call_grammar_cases import CASES, written

FILES = written()


@pytest.mark.parametrize("name", FILES)
def test_the_cases_that_both_languages_share_are_up_to_date(name: str) -> None:
    assert (CASES / name).read_text("utf-8") == FILES[name]
