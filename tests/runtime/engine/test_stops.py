"""Stop strings: found across pieces, never shown in part, whatever the pieces are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations, pairwise
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Piece, Request
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.engine.stops import StopStrings
from tests.runtime.text.test_segments import tokenizer_of


def passed(stops: list[str], pieces: list[str]) -> tuple[list[str], str | None]:
    """What comes out piece by piece, and the stop string that was found."""
    stopper = StopStrings(stops)
    out = [stopper.push(piece) for piece in pieces]
    return [*out, stopper.finish()], stopper.found


@pytest.mark.parametrize(
    ("stops", "pieces", "expected", "found"),
    [
        ([], ["a", "b"], ["a", "b", ""], None),
        (["END"], ["one EN", "D two"], ["one ", "", ""], "END"),
        (["END"], ["one EN", "T two"], ["one ", "ENT two", ""], None),
        (["END"], ["E", "N"], ["", "", "EN"], None),
        (["aab"], ["aa", "aab", "x"], ["", "aa", "", ""], "aab"),
        (["b", "abc"], ["xab", "c"], ["xa", "", ""], "b"),
        (["bc", "abc"], ["xab", "c"], ["x", "", ""], "abc"),
        (["\n\n"], ["a\n", "\n", "b"], ["a", "", "", ""], "\n\n"),
        (["é😀"], ["caf", "é", "😀"], ["caf", "", "", ""], "é😀"),
    ],
)
def test_text_ends_before_the_stop_string(
    stops: list[str], pieces: list[str], expected: list[str], found: str | None
) -> None:
    assert passed(stops, pieces) == (expected, found)


texts = st.text("ab", max_size=30)


@given(texts, st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_the_pieces_make_no_difference(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert passed(stops, pieces)[1] == passed(stops, [text])[1]
    assert "".join(passed(stops, pieces)[0]) == "".join(passed(stops, [text])[0])


@given(texts, st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_what_is_shown_never_holds_a_stop_string_nor_is_taken_back(
    text: str, stops: list[str]
) -> None:
    out, found = passed(stops, list(text))
    shown = "".join(out)
    assert text.startswith(shown)
    assert not any(stop in shown for stop in stops)
    if found is None:
        assert shown == text
    else:
        assert text.startswith(shown + found)


def ended(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """What is left of a text, and the stop string that ends it: looked for at every place."""
    for end in range(1, len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return text[: end - len(stop)], stop
    return text, None


T = TypeVar("T", str, list[int])


def cut(whole: T, places: Iterable[int]) -> list[T]:
    return [whole[a:b] for a, b in pairwise([0, *sorted(places), len(whole)])]


@given(
    st.text("ab", max_size=40),
    st.lists(st.text("ab", min_size=1, max_size=8), max_size=5),
    st.lists(st.integers(0, 40), max_size=10),
)
def test_no_more_is_held_back_than_what_may_become_a_stop_string(
    text: str, stops: list[str], places: list[int]
) -> None:
    stopper, seen, shown = StopStrings(stops), "", ""
    expected, found = ended(text, stops)
    for piece in cut(text, (place for place in places if place <= len(text))):
        seen += piece
        shown += stopper.push(piece)
        if stopper.found is None:
            begun = (n for n in range(len(seen) + 1) if any(s[:n] == seen[-n:] for s in stops))
            held = max(begun, default=0)
            assert shown == seen[: len(seen) - held]
        assert expected.startswith(shown)
    assert (shown + stopper.finish(), stopper.found) == (expected, found)


@pytest.mark.parametrize("stop", ["a" * 1000, "ab" * 500, "a" * 999 + "b", "ab" * 400 + "c"])
def test_a_long_stop_string_that_almost_came_is_let_out_and_found_later(stop: str) -> None:
    almost = stop[:-1]
    assert passed([stop], [almost, "d", almost]) == (["", almost + "d", "", almost], None)
    assert passed([stop], [almost + "d", stop + "e"]) == ([almost + "d", "", ""], stop)


KINDS = ("demo", "byte_fallback", "prefix_space", "tiny")
SAID = "Yes, 日本 — done.\n\nUser: naïve 👍🏽 END of it"


def choice(kind: str, **params: object) -> Choice:
    request = Request((1, 2, 3), SamplingParams(max_tokens=100, **params))  # type: ignore[arg-type]
    return Choice(request, tokenizer_of(kind), [0], 4096)


def accepted(answer: Choice, bursts: Iterable[list[int]]) -> list[Piece]:
    """What an answer shows of tokens that come in bursts, until it ends."""
    pieces: list[Piece] = []
    answer.on_piece = pieces.append
    for burst in bursts:
        if not answer.ended:
            answer.accept(burst)
    if not answer.ended:
        answer.end("cancelled")
    return pieces


def summary(answer: Choice) -> tuple[str, tuple[int, ...], str]:
    completion = answer.completion()
    return completion.text, completion.token_ids, completion.finish_reason


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[int], tuple[str, ...], list[int]]:
    """A tokenizer, tokens, stop strings that are mostly somewhere in their text, and cuts."""
    kind = draw(st.sampled_from(KINDS))
    tokenizer = tokenizer_of(kind)
    spoken = tokenizer.encode(draw(st.sampled_from([SAID, SAID[::-1], "ab" * 9, "é👍" * 4])))
    anything = st.lists(st.integers(1, tokenizer.vocab_size - 1), max_size=20)
    tokens = [token for token in spoken[:40] + draw(anything) if token]
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    stops = set()
    for _ in range(draw(st.integers(0, 3))):
        start, size = draw(st.integers(0, max(len(text) - 1, 0))), draw(st.integers(1, 6))
        stops.add(text[start : start + size] + draw(st.sampled_from(["", "", "x"])))
    places = draw(st.lists(st.integers(0, len(tokens)), max_size=12))
    return kind, tokens, tuple(sorted(stops - {""})), places


@given(answers())
def test_no_part_of_a_stop_string_is_shown_however_tokens_come(
    answer: tuple[str, list[int], tuple[str, ...], list[int]],
) -> None:
    kind, tokens, stops, places = answer
    text = tokenizer_of(kind).decode(tokens, skip_special_tokens=True)
    expected, found = ended(text, stops)
    one_by_one, in_bursts = choice(kind, stop=stops), choice(kind, stop=stops)
    accepted(one_by_one, ([token] for token in tokens))
    shown = ""
    for piece in accepted(in_bursts, cut(tokens, places)):
        shown += piece.text
        assert expected.startswith(shown)
    assert shown == expected
    assert in_bursts.completion().text == expected
    if found is not None:
        assert summary(in_bursts)[1] == summary(one_by_one)[1]
        assert tokens[: len(in_bursts.tokens)] == in_bursts.tokens


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", ["日本", "one.\n\nUs", "👍🏽", " END"])
def test_every_cut_of_the_tokens_ends_the_text_at_the_same_place(kind: str, stop: str) -> None:
    tokens = tokenizer_of(kind).encode(SAID, add_special_tokens=False)
    said = tokenizer_of(kind).decode(tokens)
    expected = said[: said.index(stop)]
    one_by_one = choice(kind, stop=(stop,))
    accepted(one_by_one, ([token] for token in tokens))
    last = len(one_by_one.tokens)
    assert summary(one_by_one) == (expected, tuple(tokens[:last]), "stop")
    # All cuts of the tokens around the end; those before it come in one burst.
    near = range(max(last - 7, 1), min(last + 3, len(tokens)))
    for places in chain.from_iterable(combinations(near, n) for n in range(len(near) + 1)):
        in_bursts = choice(kind, stop=(stop,))
        accepted(in_bursts, cut(tokens, places))
        assert summary(in_bursts) == summary(one_by_one)


@pytest.mark.parametrize("places", [[], [1], [1, 2, 3], [2, 5]])
def test_what_was_held_back_is_shown_when_the_answer_ends_otherwise(places: list[int]) -> None:
    tokens = tokenizer_of("tiny").encode("say EN")
    end, limit, cancelled = (choice("tiny", stop=("END",)) for _ in range(3))
    limit.limit = 3 + len(tokens)
    accepted(end, cut([*tokens, 0, *tokens], places))
    accepted(limit, cut([*tokens, *tokens], places))
    accepted(cancelled, cut(tokens, places))
    assert summary(end) == ("say EN", (*tokens, 0), "stop")
    assert summary(limit) == ("say EN", tuple(tokens), "length")
    assert summary(cancelled) == ("say EN", tuple(tokens), "cancelled")


def test_a_stop_string_is_found_in_characters_that_never_became_whole() -> None:
    tokenizer = tokenizer_of("tiny")
    broken = tokenizer.encode("a日")[:-1]  # its last character lacks a byte
    answer = choice("tiny", stop=("\ufffd",))
    answer.limit = 3 + len(broken)
    assert [piece.text for piece in accepted(answer, [broken])] == ["a"]
    assert summary(answer) == ("a", tuple(broken), "stop")
