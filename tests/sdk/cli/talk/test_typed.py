'''A line is a message, and so is what stands between """ and """.'''

from __future__ import annotations

import pytest

from edgewise.cli.talk.typed import message, messages, unfinished


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "hello"),
        ("  hello \n", "hello"),
        ('"""hello"""', "hello"),
        ('"""\none\n\n  two\n"""', "one\n\n  two"),
        ('"""one', "one"),
        ('he said """so"""', 'he said """so"""'),
        ('""""""', ""),
        ("", ""),
    ],
)
def test_what_was_typed_is_a_message(text: str, expected: str) -> None:
    assert message(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", False),
        ('"""', True),
        ('"""hello', True),
        ('"""a\nb', True),
        ('"""a\nb"""', False),
        ('"""a""" b', True),
        ('""""""', False),
        ('a """', False),
    ],
)
def test_a_quotation_goes_on_until_its_end(text: str, expected: bool) -> None:
    assert unfinished(text) is expected


def test_lines_come_one_by_one() -> None:
    lines = ["one\n", "\n", ' """two\n', "\n", '  lines"""\n', "three\n", '"""cut\n', "off"]
    assert list(messages(lines)) == ["one", "two\n\n  lines", "three", "cut\noff"]
