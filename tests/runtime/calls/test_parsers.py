"""Every format is told into answer, thought and calls, the same however the text is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise_runtime.calls import FORMATS, Arguments, CallBegins, CallEnds, Content, NoCall
from edgewise_runtime.calls.parser import new_id
from edgewise_runtime.calls.source import MAX_CALL, MAX_SPACE
from tests.runtime.calls.cases import Case, cases, cut, parsed

CASES = cases()
# What texts at random are made of: marks of all formats, and what stands between them.
BITS = sorted(
    {
        *(mark for form in FORMATS.values() for mark in form.shown),
        *(part for form in FORMATS.values() for part in (form.spelling.begin, form.spelling.named)),
        *('{"name": "f", "arguments": {}}', '"a"', "{", "}", "[", "]", ":", ",", " ", "\n", "f"),
        *("f(a=1)", "'", "\\", "1.5", "true", "```", "<", "|", "call:f{", "é", "😀", "]}"),
        *("to=functions.f", "<parameter=a>", "<function=f>", "</function>", "</parameter>", "-"),
    }
)
any_format = st.sampled_from(sorted(FORMATS))
any_text = st.lists(st.sampled_from(BITS), max_size=24).map("".join)
any_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def case_of(form: str, text: str, *, opened: bool = False) -> Case:
    return Case(form, "", text, (), None, opened)


@pytest.mark.parametrize("form", FORMATS)
def test_a_text_is_told_into_deltas_whatever_its_pieces(form: str) -> None:
    of_form = [case for case in CASES if case.form == form]
    expected = {case.what: case.deltas for case in of_form}
    for size in (1 << 20, 7, 1):
        assert {case.what: parsed(case, cut(case.text, [size])) for case in of_form} == expected


@given(case=st.sampled_from(CASES), sizes=any_sizes)
@settings(max_examples=60)
def test_where_a_case_is_cut_makes_no_difference(case: Case, sizes: list[int]) -> None:
    assert parsed(case, cut(case.text, sizes)) == case.deltas


@given(form=any_format, text=any_text, sizes=any_sizes, opened=st.booleans())
@settings(max_examples=100)
def test_where_any_text_is_cut_makes_no_difference(
    form: str, text: str, sizes: list[int], opened: bool
) -> None:
    case = case_of(form, text, opened=opened)
    assert parsed(case, cut(text, sizes)) == parsed(case, [text])


@given(form=any_format, text=any_text)
@settings(max_examples=100)
def test_of_any_text_calls_are_whole_or_said_to_be_none(form: str, text: str) -> None:
    deltas = parsed(case_of(form, text), [text])
    begun = [delta.index for delta in deltas if isinstance(delta, CallBegins)]
    assert begun == list(range(len(begun)))
    ended = [delta.index for delta in deltas if isinstance(delta, CallEnds)]
    spoiled = [d.index for d in deltas if isinstance(d, NoCall) and d.index is not None]
    assert sorted(ended + spoiled) == begun
    for index in ended:
        said = [d.text for d in deltas if isinstance(d, Arguments) and d.index == index]
        assert isinstance(json.loads("".join(said)), dict)


@given(form=any_format, text=st.text(alphabet="ab \n<|{[`(🙂é", max_size=60))
@settings(max_examples=60)
def test_nothing_is_lost_of_a_text_without_calls(form: str, text: str) -> None:
    deltas = parsed(case_of(form, text), [text])
    assert "".join(d.text for d in deltas if isinstance(d, Content | NoCall)) == text


@pytest.mark.parametrize(
    "name", [form.name for form in FORMATS.values() if form.spelling.arguments == "json"]
)
def test_calls_that_are_spelled_as_a_format_says_are_read_as_calls(name: str) -> None:
    spelling = FORMATS[name].spelling
    calls = [("f", '{"a": ["b", 1.5]}'), ("g", "{}")]
    spelled = [
        f"{spelling.begin}{tool}{spelling.named}{args}{spelling.end}" for tool, args in calls
    ]
    text = spelling.first + spelling.between.join(spelled) + spelling.last
    deltas = parsed(case_of(name, text), [text])
    found = [delta.name for delta in deltas if isinstance(delta, CallBegins)]
    assert found == ["f", "g"]
    assert [d.text for d in deltas if isinstance(d, Arguments)] == [args for _, args in calls]
    assert len(deltas) == 6


@pytest.mark.parametrize("sizes", [[1 << 30], [70_001]])
def test_a_call_that_never_ends_is_given_up(sizes: list[int]) -> None:
    begins = '<tool_call>{"name": "f", "arguments": {"a": "'
    text = begins + "x" * (MAX_CALL + 5 - len(begins))
    deltas = parsed(case_of("hermes", text), cut(text, sizes))
    assert [type(delta) for delta in deltas] == [CallBegins, Arguments, NoCall, Content]
    assert deltas[2] == NoCall(0, text[:MAX_CALL], "too long")
    assert deltas[3] == Content("xxxxx")


def test_of_white_space_only_so_much_is_held_back() -> None:
    text = "a" + " " * (MAX_SPACE + 10) + '<tool_call>{"name": "f"}</tool_call>'
    first = parsed(case_of("hermes", text), cut(text, [50]))[0]
    assert first == Content("a" + " " * 10)


def test_ids_are_nine_letters_and_digits_and_none_twice() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(given) == 9 and given.isalnum() and given.isascii() for given in ids)
