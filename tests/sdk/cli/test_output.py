"""What a command prints is what it was given, letter for letter."""

from __future__ import annotations

import pytest

from edgewise.cli.output import stdout_console
from edgewise.console import stderr_console


@pytest.mark.parametrize("text", ["15:CD:0B", "a :warning: b", "[bold]name[/bold]", "[/]"])
def test_neither_emoji_nor_markup_is_read_in_a_text(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stdout_console().print(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_nor_are_emoji_in_what_is_said_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    stderr_console().print("15:CD:0B")
    assert capsys.readouterr().err == "15:CD:0B\n"
