"""What keys do while a message is typed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.output import DummyOutput

from edgewise.cli.talk.editor import editor

ENTER, ALT_ENTER, CTRL_C, CTRL_D, UP = "\r", "\x1b\r", "\x03", "\x04", "\x1b[A"


def pasted(text: str) -> str:
    """What a terminal sends for a text from the clipboard."""
    return f"\x1b[200~{text}\x1b[201~"


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


def typed(keys: PipeInput, text: str) -> str:
    keys.send_text(text)
    return editor(InMemoryHistory(["earlier"]), terminal=keys, screen=DummyOutput())()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"hello{ENTER}", "hello"),
        (f"one{ALT_ENTER}two{ENTER}", "one\ntwo"),
        (f"one\x1b\ntwo{ENTER}", "one\ntwo"),
        (f'"""one{ENTER}two{ENTER}"""{ENTER}', '"""one\ntwo\n"""'),
        (f'"""one{ENTER}  two"""{ENTER}', '"""one\n  two"""'),
        (pasted("one\ntwo\n\nthree") + ENTER, "one\ntwo\n\nthree"),
        (pasted("one\r\ntwo\rthree") + ENTER, "one\ntwo\nthree"),
        ("say: " + pasted("a\tb") + " now" + ENTER, "say: a\tb now"),
        (f"wrong{CTRL_C}right{ENTER}", "right"),
        (f"{UP}!{ENTER}", "earlier!"),
        ("sent by some terminals\n", "sent by some terminals"),
    ],
)
def test_what_is_typed_is_one_message(keys: PipeInput, text: str, message: str) -> None:
    assert typed(keys, text) == message


@pytest.mark.parametrize(
    ("text", "error"),
    [(CTRL_C, KeyboardInterrupt), (CTRL_D, EOFError), (f"x{CTRL_C}{CTRL_C}", KeyboardInterrupt)],
)
def test_on_an_empty_line_keys_tell_of_leaving(
    keys: PipeInput, text: str, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        typed(keys, text)
