"""Thoughts, which some models write between `<think>` and `</think>` before they answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.text.template import Message

OPEN, CLOSE = "<think>", "</think>"

_USER = {"role": "user", "content": "?"}
# Nothing that a template writes by itself.
_THOUGHT = "a thought of an earlier answer"
_ANSWER = {"role": "assistant", "content": f"{OPEN}\n{_THOUGHT}\n{CLOSE}\n\nanswer"}
_OPENED = re.compile(rf"{OPEN}\s*\Z")
# White space before and after marks, and how much of it may stand before a thought.
_SPACE, _MAX_SPACE = " \t\n\r\f\v", 256
# The end of a thought whose beginning is not there; within a line it is a word of an answer.
_ENDS_LINE = re.compile(rf"{CLOSE}[^\S\n]*(?:\n|\Z)")


@dataclass(frozen=True)
class Thinking:
    """What a chat template does about thoughts.

    Attributes:
        switchable: it reads ``enable_thinking`` of the variables.
        by_default: the model thinks where that is left out; True where nothing can be said.
        opened_on: with thinking on, prompts end with ``<think>``: answers begin in a thought.
        opened_off: the same with thinking off.
        forgets: prompts leave out the thoughts of earlier answers.
    """

    switchable: bool
    by_default: bool
    opened_on: bool
    opened_off: bool
    forgets: bool

    def opened(self, wanted: bool | None) -> bool:
        """Whether answers begin in a thought where thinking is on, off, or (None) not asked for."""
        on = wanted if self.switchable and wanted is not None else self.by_default
        return self.opened_on if on else self.opened_off


def thinking_of(render: Callable[[Sequence[Message], dict[str, Any]], str]) -> Thinking:
    """Find out what a template does, by rendering short conversations with it.

    Args:
        render: returns the prompt of messages, given variables. Of one that raises an
            EdgewiseError it is said that it knows nothing of thoughts.
    """

    def prompt(messages: Sequence[Message], wanted: bool | None = None) -> str:
        try:
            return render(messages, {} if wanted is None else {"enable_thinking": wanted})
        except EdgewiseError:
            return ""

    on, off = prompt([_USER], True), prompt([_USER], False)
    # Asked again, since a template may write the time.
    switchable = on != off and on == prompt([_USER], True)
    answered = prompt([_USER, _ANSWER, _USER])
    return Thinking(
        switchable=switchable,
        by_default=not switchable or prompt([_USER]) != off,
        opened_on=bool(_OPENED.search(on)),
        opened_off=bool(_OPENED.search(off)),
        forgets=answered != "" and _THOUGHT not in answered,
    )


def parted(text: str) -> tuple[str, str]:
    """An answer's thought and what it says after it; either may be empty, or not have come yet."""
    start = len(text) - len(text.lstrip())
    if text.startswith(OPEN, start):
        thought, _, said = text[start + len(OPEN) :].partition(CLOSE)
    elif found := _ENDS_LINE.search(text):
        thought, said = text[: found.start()], text[found.end() :]
    else:
        return "", text
    return thought.strip(), said.lstrip()


class ThoughtStream:
    """Tells, while an answer comes, what of it is thought; only one that it begins with is.

    Args:
        marks: pairs that a thought may stand between.
        opened: the prompt ends with the first of the first pair.
    """

    def __init__(
        self, marks: Sequence[tuple[str, str]] = ((OPEN, CLOSE),), *, opened: bool = False
    ) -> None:
        self._marks = marks
        self._close = marks[0][1] if opened else ""
        self._thinking = self._edge = opened
        self._undecided = not opened
        self._held = ""

    def push(self, piece: str) -> list[tuple[bool, str]]:
        """Take the next piece; return texts, each with whether it is thought.

        Left out are the marks and the white space after them; what may become one is held back.
        """
        text, self._held = self._held + piece, ""
        if self._undecided:
            begun = text.lstrip(_SPACE)
            plain = len(text) - len(begun) > _MAX_SPACE
            if not plain and any(
                len(begun) < len(mark) and mark.startswith(begun) for mark, _ in self._marks
            ):
                self._held = text
                return []
            self._undecided = False
            for mark, close in self._marks:
                if not plain and begun.startswith(mark):
                    self._thinking = self._edge = True
                    text, self._close = begun[len(mark) :], close
        if not self._thinking:
            return self._texts(False, text)
        thought, mark, said = text.partition(self._close)
        keep = 0 if mark else _beginning(thought, self._close)
        self._held = thought[len(thought) - keep :]
        found = self._texts(True, thought[: len(thought) - keep])
        if not mark:
            return found
        self._thinking, self._edge = False, True
        return found + self._texts(False, said)

    def finish(self) -> list[tuple[bool, str]]:
        """Return what was held back, once nothing follows."""
        held, self._held = self._held, ""
        return self._texts(self._thinking, held)

    def _texts(self, thought: bool, text: str) -> list[tuple[bool, str]]:
        if self._edge:
            text = text.lstrip(_SPACE)
            self._edge = not text
        return [(thought, text)] if text else []


def _beginning(text: str, mark: str) -> int:
    """How many of the last characters of a text are the beginning of a mark."""
    most = min(len(text), len(mark) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(mark[:n])), 0)
