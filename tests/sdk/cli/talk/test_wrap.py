"""Words wrap at a width while they come, and nothing that is printed moves the cursor."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from edgewise.cli.talk.wrap import WordWrap

PROSE = "The quick brown fox jumps over the lazy dog, and nobody is surprised any more."
CODE = "Look:\n```python\nprint('a line of code that is longer than the terminal is')\n```\n"


NARROW = re.compile("[^ 東京🙂]+")
"""A word: between characters of two cells a line may break anywhere."""


def wrapped(text: str, width: int, size: int = 1) -> str:
    wrap = WordWrap(width)
    pieces = [wrap.push(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join([*pieces, wrap.finish()])


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_lines_break_between_words_however_the_text_comes(size: int) -> None:
    assert wrapped(PROSE, 25, size).splitlines() == [
        "The quick brown fox",
        "jumps over the lazy dog,",
        "and nobody is surprised",
        "any more.",
    ]


def test_a_word_is_printed_once_it_is_whole() -> None:
    wrap = WordWrap(20)
    assert wrap.push("to") == ""
    assert wrap.push("day is") == "today"
    assert wrap.push(" ") == " is"
    assert wrap.push("fine") == ""
    assert wrap.finish() == " fine"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\n\n  two", "one\n\n  two"),
        ("a  b", "a  b"),
        ("\tindented", "    indented"),
        ("ends here   \nnext", "ends here\nnext"),
        ("one\r\ntwo\r", "one\ntwo"),
        ("https://example.org/" + "x" * 60, "https://example.org/" + "x" * 60),
        ("see https://example.org/" + "x" * 60, "see\nhttps://example.org/" + "x" * 60),
        ("x" * 20 + " and on", "x" * 20 + "\nand on"),
        ("東京" * 12, f"{'東京' * 4}東\n京{'東京' * 4}\n{'東京' * 3}"),
        ("\x1b[2Jgone\x07\x9b", "\ufffd[2Jgone\ufffd\ufffd"),
    ],
)
def test_what_is_not_prose(text: str, shown: str) -> None:
    assert wrapped(text, 20) == shown


def test_code_stays_as_it_is() -> None:
    text = f"{CODE}{PROSE}"
    assert wrapped(text, 25) == f"{CODE}{wrapped(PROSE, 25)}"
    assert wrapped("```inline``` " + PROSE, 25).count("\n") > 2
    other = "~~~\n```\n" + PROSE
    assert wrapped(other, 25) == other


def test_a_terminal_may_change_its_width() -> None:
    wrap = WordWrap(80)
    first = wrap.push(f"{PROSE[:39]}\n")
    wrap.width = 12
    assert max(map(len, wrap.push(f"{PROSE}\n").splitlines())) < 12
    assert first == f"{PROSE[:39]}\n"


@given(st.text(st.sampled_from("abc de\n 東🙂é`~.")), st.integers(2, 30), st.integers(1, 9))
def test_nothing_is_lost_and_lines_fit(text: str, width: int, size: int) -> None:
    found = wrapped(text, width, size)
    assert found == wrapped(text, width)
    assert "".join(found.split()) == "".join(text.split())
    if "```" not in text and "~~~" not in text:
        given_lines, longest = text.split("\n"), max(map(cell_len, text.split() or [""]))
        indent = max(len(line) - len(line.lstrip(" ")) for line in given_lines)
        if longest + indent < width:
            assert max(map(cell_len, found.split("\n"))) < width
        for line in found.split("\n"):
            # The first word comes after whatever a line is indented by.
            for word in list(NARROW.finditer(line))[1:]:
                begin, cells = cell_len(line[: word.start()]) % width, cell_len(word[0])
                assert begin + cells < width or cells >= width - 1, "the terminal breaks a word"
