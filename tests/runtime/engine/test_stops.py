"""Stop strings: found across pieces, never shown in part, whatever the pieces are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.engine.stops import StopStrings


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
