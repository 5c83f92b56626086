"""Foreign text gives a terminal no orders."""

from __future__ import annotations

import json
import traceback
import unicodedata

import pytest

from edgewise_runtime.errors import BundleError
from edgewise_runtime.shown import MARK, shown, shown_json

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
TITLE = "\x9d0;title\x9c"
TURNED = "\u202egnp.exe\u202c \u2066x\u2069"


def orders(text: str) -> list[str]:
    """The characters of a text that a terminal would not show."""
    ours = "\n\t"
    return [c for c in text if unicodedata.category(c) == "Cc" and c not in ours]


def test_every_control_character_becomes_a_mark_but_lines_and_tabs() -> None:
    everything = "".join(map(chr, range(0x100)))
    assert orders(shown(everything)) == []
    assert shown("a\tb\nc é 日本 😀") == "a\tb\nc é 日本 😀"
    assert shown(CLIPBOARD) == f"{MARK}]52;c;ZXZpbA=={MARK}"
    assert shown(TURNED) == f"{MARK}gnp.exe{MARK} {MARK}x{MARK}"


@pytest.mark.parametrize("text", [CLIPBOARD, TITLE, TURNED, "\x7f", "é😀\n\x00"])
def test_json_stays_the_same_without_them(text: str) -> None:
    line = shown_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(line) == {text: [text]}
    assert shown(line) == line


def test_a_traceback_of_our_errors_has_none() -> None:
    error = BundleError(f"There is no {CLIPBOARD}.", remedy=f"Look at {TITLE}.")
    assert orders("".join(traceback.format_exception(error))) == []
    assert CLIPBOARD in error.message
