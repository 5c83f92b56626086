"""An answer while it comes, told into what is said, what is thought and what is called."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable

from edgewise_runtime.calls.deltas import Delta, joined
from edgewise_runtime.calls.format import Format
from edgewise_runtime.calls.source import Source, Tools
from edgewise_runtime.text.thinking import ThoughtStream

_ID_CHARACTERS = string.ascii_letters + string.digits
_ID_LENGTH = 9  # Mistral's templates accept no other


def new_id() -> str:
    """An id for a call: nine letters and digits."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))


class Parser:
    """Parses one answer. It never raises: what is no call comes out as `NoCall`, or is content.

    The same text gives the same deltas, joined, however it is cut.

    Args:
        form: how this model writes calls (`format_of`, `format_named`).
        tools: JSON schemas of the arguments of the tools that there are, by name. Where a model
            writes arguments without types they say what is a number; where it writes calls without
            marks, only these are calls.
        opened: the prompt has begun a thought.
        new_id: returns the id of a call.
    """

    def __init__(
        self,
        form: Format,
        *,
        tools: Tools | None = None,
        opened: bool = False,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        thoughts = form.thoughts
        self._thoughts = ThoughtStream(thoughts, opened=opened) if thoughts else None
        self._source = Source(tools, new_id)
        self._reading = form.read(self._source)

    def feed(self, text: str) -> list[Delta]:
        """Take the next piece of text, in which the format's marks are shown.

        Returns:
            What is certain now. What may turn out to be a mark, or white space before a call, is
            held back.
        """
        self._take([(False, text)] if self._thoughts is None else self._thoughts.push(text))
        return self._taken()

    def end(self) -> list[Delta]:
        """Say that nothing follows; return what was held back."""
        if self._thoughts:
            self._take(self._thoughts.finish())
        if not self._source.ended:
            self._source.ended = True
            self._read()
            self._source.finish()
        return self._taken()

    def _take(self, parts: list[tuple[bool, str]]) -> None:
        for thought, text in parts:
            if thought:
                self._source.think(text)
            else:
                self._source.push(text)
                self._read()

    def _read(self) -> None:
        next(self._reading, None)

    def _taken(self) -> list[Delta]:
        deltas, self._source.deltas = self._source.deltas, []
        return joined(deltas)
