"""The conversation in a terminal: read a message, answer it, until the person leaves."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.output import Output
from prompt_toolkit.output.defaults import create_output
from rich.console import Console

from edgewise.answers import Completion
from edgewise.cli.output import speed
from edgewise.cli.talk.answer import AnswerView, cut, forgotten
from edgewise.cli.talk.commands import counted, run_command
from edgewise.cli.talk.conversation import Conversation, Show
from edgewise.cli.talk.editor import Read, editor
from edgewise.cli.talk.history import KeptHistory, history_file
from edgewise.cli.talk.typed import message
from edgewise.console import stderr_console
from edgewise.engine import Engine
from edgewise_runtime.errors import EdgewiseError

_REMEDIES = {
    "nothing": "the arrow key up brings the question back",
    "stopped": "/continue goes on",
    "full": "/clear begins anew",
    "limit": "/continue goes on, /set max-tokens N allows more",
}


class Repl:
    """A conversation, and the terminal it is held in."""

    def __init__(
        self, engine: Engine, conversation: Conversation, console: Console, beside: Console
    ) -> None:
        """Show answers on one console, and everything else beside it on another, or the same."""
        self.conversation = conversation
        self.model = engine.name
        self._engine = engine
        self._console = console
        self._beside = beside
        self._left = False

    def run(self, read: Read) -> int:
        """Talk until the person leaves; return the exit status."""
        with stopping(self.conversation.stop):
            interrupted = False
            while not self._left:
                try:
                    typed = read()
                except EOFError:
                    break
                except KeyboardInterrupt:
                    if interrupted:
                        break
                    interrupted = True
                    self.say("Ctrl-C again to leave.")
                    continue
                interrupted = False
                self._take(typed)
        return 0

    def say(self, text: str) -> None:
        """Tell the person something beside the conversation."""
        self._tell(text, "dim")

    def answer(self, ask: Callable[[Show], Completion], before: str) -> None:
        """Show the answer that `ask` gives, then how fast it came and why it was cut.

        `before` is what it has begun with.
        """
        view = AnswerView(self._console, before)
        try:
            completion = ask(view.push)
        finally:
            view.finish()
        self.say(speed(completion))
        if why := cut(completion, self._engine.context):
            self.say(f"({why[1]}: {_REMEDIES[why[0]]})")
        if completion.dropped_turns:
            self.say(forgotten(completion.dropped_turns))

    def about(self) -> list[str]:
        """What runs, a line each."""
        engine = self._engine
        return [
            f"{engine.name}: {engine.program} on {engine.device}",
            f"{counted(len(self.conversation.turns))} so far, {engine.context:,} tokens of context",
        ]

    def leave(self) -> None:
        """End the conversation."""
        self._left = True

    def _take(self, typed: str) -> None:
        """Do what was typed: a command, or a message to the model."""
        conversation, text = self.conversation, message(typed)
        try:
            if typed.startswith("/"):
                run_command(self, text)
            elif text:
                self.answer(partial(conversation.ask, text), conversation.opening)
        except EdgewiseError as error:
            self._tell(f"{error.message} {error.remedy}".rstrip(), "red")

    def _tell(self, text: str, style: str) -> None:
        self._beside.print(text, style=style, soft_wrap=False, markup=False)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C stop the answer that is being written and nothing else, however often it comes.

    While a message is typed it is a key like others, which the editor tells of.
    """
    before = signal.signal(signal.SIGINT, lambda *_: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def talk(engine: Engine, conversation: Conversation, console: Console, *, keep: bool) -> int:
    """Hold a conversation in the terminal; return the exit status.

    Args:
        keep: whether what is typed is kept for the next time.
    """
    history: History = KeptHistory(history_file()) if keep else InMemoryHistory()
    screen: Output | None = None
    beside = console
    if not sys.stdout.isatty():  # answers go to a file, and nothing else does
        screen, beside = create_output(always_prefer_tty=True), stderr_console()
    repl = Repl(engine, conversation, console, beside)
    repl.say(f"{engine.name}: {engine.program} on {engine.device}. /help lists commands.")
    return repl.run(editor(history, screen=screen))
