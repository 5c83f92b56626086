"""The editor in which a person types a message in a terminal."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from edgewise.cli.talk.typed import unfinished

PROMPT = "› "
CONTINUED = "… "

Read = Callable[[], str]
"""Waits for what is typed. Raises EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C, both on an
empty line."""


def editor(
    history: History, *, terminal: Input | None = None, screen: Output | None = None
) -> Read:
    '''Return what reads the next message.

    Enter sends it, but within """ begins a line, as Alt-Enter does; what is pasted keeps its lines.

    Args:
        history: what the arrow keys bring back.
        terminal: where keys come from; None for stdin.
        screen: where it is drawn; None for stdout.
    '''
    session: PromptSession[str] = PromptSession(
        PROMPT,
        history=history,
        key_bindings=_keys(),
        prompt_continuation=CONTINUED,
        enable_suspend=True,
        input=terminal,
        output=screen,
    )
    return session.prompt


def _keys() -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)
    quoting = Condition(lambda: unfinished(get_app().current_buffer.text))
    written = Condition(lambda: bool(get_app().current_buffer.text))

    @keys.add("enter", filter=typing & quoting)
    @keys.add("escape", "enter", filter=typing)
    @keys.add("escape", "c-j", filter=typing)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=typing & written)
    @keys.add("<sigint>", filter=typing & written)
    def clear(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    return keys
