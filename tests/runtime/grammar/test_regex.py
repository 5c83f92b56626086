"""Regular expressions lowered to a grammar take the texts that Python's `re` takes."""

from __future__ import annotations

import contextlib
import json
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import EdgewiseError, InputError, UnsupportedError
from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import Chars, Grammar, Literal, Node, Repeat
from edgewise_runtime.grammar.ranges import EVERY
from edgewise_runtime.grammar.regex import Where, lower_regex
from tests.runtime.grammar.drawing import drawn
from tests.runtime.grammar.recognise import accepts
from tests.runtime.grammar.regexes import BOMBS, UNSUPPORTED, WRONG

LETTERS = 'abcZ09_- .,\n\t"\\é日😀'
"""No white space or line terminators beyond ASCII: those only one of the languages takes."""

texts = st.text(st.sampled_from(LETTERS), max_size=6)
atoms = st.sampled_from(
    r"a b c é - \. \d \D \w \W \s \S . \n \x61 [ab] [^a] [a-c] [^\s] [^\W\d] [-a] [b\]]"
    r" [\\\"] 日|😀 \u00e9".split()
)
quantifiers = st.sampled_from(["", *"* + ? *? +? ?? {2} {1,2} {2,} {0,2}?".split()])
groups = st.sampled_from(["(", "(?:"])
regexes = st.recursive(
    atoms | st.just(""),
    lambda inner: st.one_of(
        st.builds("{}{}){}".format, groups, inner, quantifiers),
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
    ),
    max_leaves=8,
)
edged = st.builds(
    "{}(?:{}){}".format,
    st.sampled_from(["", "^", "(?:^|,)", "(^|a|b)"]),
    regexes,
    st.sampled_from(["", "$", "(?:-|$)", "(a$|b)"]),
)


def python_takes(pattern: str, text: str, where: Where = "whole") -> bool:
    """As ECMAScript has ``$``: not before a line break at the end."""
    match = re.search if where == "within" else re.fullmatch
    return match(pattern.replace("$", r"\Z"), text, re.ASCII) is not None


def drawn_texts(node: Node, count: int = 4) -> list[str]:
    return [drawn(Grammar({"root": node}, "root"), node, Random(seed)) for seed in range(count)]


def code_of(pattern: str, **options: Any) -> str:
    with pytest.raises(EdgewiseError) as refused:
        lower_regex(pattern, **options)
    assert len(str(refused.value)) < 400
    return refused.value.code


@given(regexes, st.lists(texts, min_size=1, max_size=8))
def test_an_expression_takes_the_texts_that_python_matches_whole(
    pattern: str, tried: list[str]
) -> None:
    node = lower_regex(pattern)
    for text in tried:
        assert accepts(node, text) == python_takes(pattern, text), text
    for text in drawn_texts(node):
        assert python_takes(pattern, text), text
        assert accepts(node, text), text


@given(edged, st.lists(texts, min_size=1, max_size=8))
def test_a_pattern_takes_the_texts_that_python_finds_it_in(pattern: str, tried: list[str]) -> None:
    node = lower_regex(pattern, where="within")
    for text in tried:
        assert accepts(node, text) == python_takes(pattern, text, "within"), text
    for text in drawn_texts(node):
        assert python_takes(pattern, text, "within"), text


@given(edged, st.lists(texts, min_size=1, max_size=4))
def test_in_json_strings_characters_are_spelled_as_json_spells_them(
    pattern: str, tried: list[str]
) -> None:
    node = lower_regex(pattern, where="within", escape=json_escape)
    for text in tried:
        spelled = json.dumps(text, ensure_ascii=False)[1:-1]
        assert accepts(node, spelled) == python_takes(pattern, text, "within"), text
    for spelled in drawn_texts(node):
        text = json.loads(f'"{spelled}"')
        assert json.dumps(text, ensure_ascii=False)[1:-1] == spelled
        assert python_takes(pattern, text, "within"), text


def test_every_character_has_one_spelling_in_json() -> None:
    node = lower_regex("[\\x00-\\u{10FFFF}]", escape=json_escape)
    for code in (*range(0x3000), *range(0xD000, 0xD800), *range(0xE000, 0x10FFFF, 997), 0x10FFFF):
        assert accepts(node, json.dumps(chr(code), ensure_ascii=False)[1:-1]), code
    for other in ('"', "\\", "\n", "\\u000a", "\\u0041", "\\/", "\\u001F", "\\x41"):
        assert not accepts(node, other), other


@pytest.mark.parametrize("space", "\x1c\x1f\x85\xa0\u2028\u3000\ufeff")
def test_white_space_of_one_language_is_neither_taken_as_such_nor_as_anything_else(
    space: str,
) -> None:
    for pattern in (r"\s", r"\S", r"[\s]", r"[^\s]", r"[^\S]"):
        assert not accepts(lower_regex(pattern), space), pattern
    assert accepts(lower_regex("[^a]"), space)


def test_a_dot_takes_no_line_terminator_of_either_language() -> None:
    assert not any(accepts(lower_regex("."), end) for end in "\n\r\u2028\u2029")
    assert accepts(lower_regex(".", dot_all=True), "\n")


@pytest.mark.parametrize(
    ("pattern", "taken", "refused"),
    [
        ("abc[x-z]", ["ABCX", "aBcZ", "abcy"], ["abcw"]),
        ("[^k]", ["a", "é"], ["k", "K", "\u212a"]),
        ("[@-Z]", ["@", "a", "Z"], ["["]),
        ("[Z-a]", ["z", "A", "^"], ["b", "B"]),
    ],
)
def test_case_is_ignored_of_ascii_letters(
    pattern: str, taken: list[str], refused: list[str]
) -> None:
    node = lower_regex(pattern, ignore_case=True)
    assert [accepts(node, text) for text in taken] == [True] * len(taken)
    assert not any(accepts(node, text) for text in refused)


def test_case_is_not_ignored_of_other_letters_and_that_is_said() -> None:
    assert code_of("é", ignore_case=True) == "unsupported.regex"


@pytest.mark.parametrize("pattern", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_refused_by_name_is(pattern: str) -> None:
    assert code_of(pattern) == "unsupported.regex"


@pytest.mark.parametrize("pattern", WRONG.values(), ids=WRONG.keys())
def test_no_expression_is(pattern: str) -> None:
    assert code_of(pattern) == "input.regex"


@pytest.mark.parametrize("pattern", BOMBS.values(), ids=BOMBS.keys())
def test_too_large_is(pattern: str) -> None:
    assert code_of(pattern) == "input.regex"


def test_within_a_larger_text_no_anchor_is_taken() -> None:
    assert code_of("^a", where="part") == code_of("a$", where="part") == "unsupported.regex"
    assert lower_regex("a", where="part") == Literal("a")


def test_what_is_refused_says_where_and_what_it_is() -> None:
    with pytest.raises(EdgewiseError, match=r"a look-ahead, at character 3\."):
        lower_regex("ab(?=c)")


def test_anything_is_one_repetition_however_it_is_written() -> None:
    anything = Repeat(Chars(EVERY), 0, None)
    for pattern in ("", ".*", "^.*$|", r"[\s\S]*", "()"):
        node = lower_regex(pattern, where="within")
        assert str(node).count("Repeat") <= 2, pattern
    assert lower_regex("", where="within") == lower_regex(".*", where="within") == anything


@pytest.mark.filterwarnings("ignore::FutureWarning")
@given(st.text(st.sampled_from("ab()[]{}|*+?^$\\.-,0123=!:Pdwsb^"), max_size=12))
def test_what_is_not_refused_python_reads_too_and_takes_the_same_texts(pattern: str) -> None:
    with contextlib.suppress(InputError, UnsupportedError):
        node = lower_regex(pattern)
        for text in drawn_texts(node):
            assert python_takes(pattern, text), text
