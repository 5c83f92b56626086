"""A conversation in a real terminal: commands, answers, and how to leave."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from rich.console import Console

from edgewise import Engine
from edgewise.cli.chat import Conversation
from tests.sdk.cli.commands import command, environment

CTRL_C = "\x03"


class Terminal:
    """The person's side of a terminal in which a program runs."""

    def __init__(self, descriptor: int, program: subprocess.Popen[bytes]) -> None:
        self._descriptor = descriptor
        self._program = program
        self._seen = b""

    def type(self, typed: str, expected: str) -> None:
        """Type, and read until `expected` and then the next prompt are shown.

        Ctrl-C is repeated when nothing happens: Python notices an interrupt that comes between
        the prompt and the wait for a key only with the next key.
        """
        os.write(self._descriptor, typed.encode())
        self._until(expected, typed)
        self._until("› ", "")

    def leaves_after(self, typed: str) -> int:
        """Type, and return the exit status."""
        for _ in range(12):
            os.write(self._descriptor, typed.encode())
            try:
                return self._program.wait(timeout=5)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError(f"still there after {typed!r}: {self._seen!r}")

    def _until(self, expected: str, typed: str) -> None:
        wanted = expected.encode()
        for _ in range(12):
            while wanted not in self._seen and select.select([self._descriptor], [], [], 5)[0]:
                self._seen += os.read(self._descriptor, 4096)
            if wanted in self._seen:
                self._seen = self._seen[self._seen.index(wanted) + len(wanted) :]
                return
            if typed == CTRL_C:
                os.write(self._descriptor, typed.encode())
        raise AssertionError(f"no {expected!r} after {typed!r}: {self._seen!r}")


@contextmanager
def talking(bundle: Path) -> Iterator[Terminal]:
    """`edgewise chat` in a terminal of its own, once it asks for input."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("chat", bundle, "--max-tokens", "4"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="dumb"),
        start_new_session=True,
        # Opening a terminal in a new session makes it the one whose Ctrl-C counts.
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
    ) as program:
        os.close(theirs)
        terminal = Terminal(ours, program)
        try:
            terminal.type("", "/help lists commands")
            yield terminal
        finally:
            program.kill()
            os.close(ours)


def test_commands_answers_and_exit(bundle: Path) -> None:
    with talking(bundle) as terminal:
        terminal.type("/help\n", "forget the conversation")
        terminal.type("/nonsense\n", "There is no /nonsense")
        terminal.type("/system Be kind.\n", "A new conversation")
        terminal.type("Hello\n", "first token after")
        terminal.type("/reset\n", "A new conversation")
        terminal.type("\n", "")
        assert terminal.leaves_after("/exit\n") == 0


def test_a_conversation_that_cannot_go_on_says_why(bundle: Path) -> None:
    with talking(bundle) as terminal:
        terminal.type("/system " + "the weather " * 150 + "\n", "A new conversation")
        terminal.type("Hello\n", "the context holds 256")
        terminal.type("/system\n", "A new conversation")
        terminal.type("Hello\n", "first token after")
        assert terminal.leaves_after("\x04") == 0


def test_two_interrupts_leave(bundle: Path) -> None:
    with talking(bundle) as terminal:
        terminal.type(CTRL_C, "Ctrl-C again to leave")
        assert terminal.leaves_after(CTRL_C) == 0


class Interrupted(io.StringIO):
    """Where a person presses Ctrl-C while the third piece of text is shown."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        if self.writes == 3:
            raise KeyboardInterrupt
        return super().write(text)


def test_an_interrupt_stops_the_answer_and_keeps_what_was_said(engine: Engine) -> None:
    shown = Interrupted()
    console = Console(file=io.StringIO())
    conversation = Conversation(engine, {"seed": 1, "ignore_eos": True}, console, None)
    with redirect_stdout(shown):
        stopped = conversation.ask("Hello")
        answered = conversation.ask("Go on")
    assert stopped.finish_reason == "cancelled"
    assert 0 < stopped.usage.completion_tokens < answered.usage.completion_tokens
    assert shown.getvalue()
