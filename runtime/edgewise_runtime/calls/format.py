"""What is known of one way to write calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edgewise_runtime.calls.source import Reading, Source
from edgewise_runtime.text.thinking import CLOSE, OPEN

Thoughts = tuple[tuple[str, str], ...]
"""Pairs of marks that a thought stands between."""
THINK: Thoughts = ((OPEN, CLOSE),)


@dataclass(frozen=True)
class Spelling:
    """How calls are written where they are forced: what a grammar puts around names and arguments.

    ``first``, then of each call ``begin``, its name, ``named``, its arguments and ``end``, with
    ``between`` between two calls; then ``last``.

    Attributes:
        id: the mark of an id of nine letters and digits, which may stand behind a name.
        close: what may stand behind all that; tokenizers have it as a token that ends the answer.
        arguments: the notation of the arguments: ``json``, ``xml``, ``gemma`` or ``python``.
        quote: the mark around strings of Gemma's notation.
        thought: what a thought stands between that may come before calls, where `read` tells
            thoughts itself, and between the two what no thought has in it.
        after: ``free`` where the model may go on with text, ``end`` where calls end its turn.
    """

    begin: str
    named: str
    end: str
    id: str = ""
    first: str = ""
    between: str = ""
    last: str = ""
    close: str = ""
    arguments: str = "json"
    quote: str = ""
    thought: tuple[str, str, str] | None = None
    after: Literal["free", "end"] = "end"


@dataclass(frozen=True)
class Format:
    """One way to write calls.

    Attributes:
        name: what it is chosen by.
        read: the reader of an answer, thoughts at its beginning left out.
        marks: texts that `read` looks for.
        triggers: texts after which nothing but a call is meant, so that a grammar may begin there.
            Empty where only the whole answer can be a call.
        spelling: how calls are written where they are forced.
        thoughts: marks around a thought that the answer may begin with; the first pair is the one
            that a prompt may have opened. Empty where `read` tells thoughts itself.
    """

    name: str
    read: Callable[[Source], Reading[None]]
    marks: tuple[str, ...]
    triggers: tuple[str, ...]
    spelling: Spelling
    thoughts: Thoughts = THINK

    @property
    def shown(self) -> tuple[str, ...]:
        """All texts that have to be seen; of special tokens those are shown that one has in it."""
        return (*self.marks, *(mark for pair in self.thoughts for mark in pair))
