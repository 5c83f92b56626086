"""How an answer is shown while it comes, and why it ended too early."""

from __future__ import annotations

from rich.console import Console

from edgewise.cli.talk.wrap import WordWrap
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.text.thinking import ThoughtStream

NARROW = 20
"""Columns below which lines are not broken any earlier."""


class AnswerView:
    """Prints the pieces of one answer to a console.

    In a terminal words wrap at its width, and a thought comes first, dim. Elsewhere the answer is
    printed letter for letter, without its thought.
    """

    def __init__(self, console: Console, before: str) -> None:
        """`before`: what the answer has begun with; in a terminal its last line is shown again."""
        self._console = console
        self._stream = ThoughtStream()
        self._wrap = WordWrap(self._width())
        self._thought = False
        self._shown = False
        earlier: list[str] = []
        self._write = earlier.append
        self._show(self._stream.push(before))
        self._write = self._write_out
        if console.is_terminal:
            self._print("".join(earlier).rpartition("\n")[2])

    def push(self, piece: str) -> None:
        """Print what is certain of the next piece."""
        self._show(self._stream.push(piece))

    def finish(self) -> None:
        """Print what was held back, and end the line, if there is one."""
        self._show(self._stream.finish())
        self._print(self._wrap.finish())
        if self._shown:
            self._print("\n")

    def _show(self, parts: list[tuple[bool, str]]) -> None:
        for thought, text in parts:
            if self._console.is_terminal:
                self._show_wrapped(text, thought)
            elif not thought:
                self._print(text)

    def _show_wrapped(self, text: str, thought: bool) -> None:
        if self._thought and not thought:
            self._print(self._wrap.finish() + "\n\n")
            self._wrap = WordWrap(self._width())
        self._thought = thought
        self._wrap.width = self._width()
        self._print(self._wrap.push(text))

    def _print(self, text: str) -> None:
        if text:
            self._write(text)

    def _write_out(self, text: str) -> None:
        self._shown = True
        if self._thought:
            self._console.out(text, end="", style="dim italic", highlight=False)
        else:  # a console would make spaces of tabs
            self._console.file.write(text)
            self._console.file.flush()

    def _width(self) -> int:
        return max(self._console.width, NARROW)


def cut(completion: Completion, context: int) -> tuple[str, str] | None:
    """Why an answer ended too early, in a word and in words.

    The word is ``nothing`` (came), ``stopped``, ``full`` (is the context) or ``limit``. None where
    it ended by itself.
    """
    if not completion.token_ids and completion.finish_reason != "length":
        return "nothing", "stopped before anything came"
    if completion.finish_reason == "cancelled":
        return "stopped", "stopped"
    if completion.context_full:
        return "full", f"cut: the context of {context:,} tokens is full"
    if completion.finish_reason == "length":
        return "limit", f"cut after {completion.usage.completion_tokens:,} tokens"
    return None


def forgotten(turns: int) -> str:
    """What is said of turns that no longer fit."""
    if turns == 1:
        return "(the oldest turn no longer fits and is forgotten)"
    return f"(the {turns} oldest turns no longer fit and are forgotten)"
