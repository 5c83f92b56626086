"""Texts without a mark are all those that do not have it."""

from __future__ import annotations

from itertools import product

import pytest

from edgewise_runtime.grammar.avoiding import texts_without
from edgewise_runtime.grammar.escapes import json_escape, plain
from edgewise_runtime.grammar.ranges import EVERY, characters
from tests.runtime.grammar.recognise import accepts

TEXTS = ["".join(text) for size in range(7) for text in product("abc", repeat=size)]


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("allowed", ["abc", "ab", "ac", "bc"])
@pytest.mark.parametrize("mark", ["ab", "abc", "abbc"])
def test_a_text_is_allowed_if_the_mark_is_not_in_it(
    mark: str, allowed: str, ends: bool, least: int
) -> None:
    node = texts_without(mark, characters(allowed), plain, least=least, ends=ends)
    beginnings = tuple(mark[:size] for size in range(1, len(mark)))
    for text in TEXTS:
        fits = set(text) <= set(allowed) and len(text) >= least and mark not in text
        assert accepts(node, text) == (fits and (ends or not text.endswith(beginnings))), text


def test_characters_are_spelled_as_they_are_elsewhere() -> None:
    node = texts_without("</p>", EVERY, json_escape)
    assert accepts(node, '<\\n</p\\"</\\u0000日<')
    assert not accepts(node, "\n")
    assert not accepts(node, "a</p>")
