"""How an answer is read while it comes: on the thread of whoever reads it, never the engine's."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from edgewise.answers import Completion, Piece, values_of
from edgewise.response_format import ResponseFormat
from edgewise.tool_calls import ToolCall, by_name
from edgewise.tools import Tool
from edgewise.wanted import Wanted
from edgewise_runtime.calls import (
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    Format,
    NoCall,
    Parser,
    Reasoning,
)
from edgewise_runtime.engine.completion import Completion as Written
from edgewise_runtime.engine.sequence import Piece as WrittenPiece
from edgewise_runtime.text.thinking import ThoughtStream

_ID_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 9  # Mistral's templates accept no other


class Reader(Protocol):
    """Tells the text of one answer into deltas."""

    def feed(self, text: str) -> list[Delta]:
        """Take the next piece of text; return what is certain now."""

    def end(self) -> list[Delta]:
        """Say that nothing follows; return what was held back."""


@dataclass(frozen=True)
class Reading:
    """How the answers of one request are read: by default all of them is said, as it is.

    Attributes:
        form: how this model writes thoughts and calls; None to leave them in the text.
        calls: whether calls are looked for.
        tools: those that may be called.
        opened: the prompt has begun a thought.
        before: the text of the tokens that the answer goes on from.
        format: what the answer is to be.
    """

    form: Format | None = None
    calls: bool = False
    tools: tuple[Tool, ...] = ()
    opened: bool = False
    before: str = ""
    format: ResponseFormat | None = None
    _secret: str = field(default_factory=lambda: secrets.token_hex(8), compare=False, repr=False)

    @property
    def shown(self) -> tuple[str, ...]:
        """Special tokens that are part of these texts have to be in the text that is read."""
        if self.form is None:
            return ()
        if self.calls or not self.form.thoughts:
            return self.form.shown
        return tuple(mark for pair in self.form.thoughts for mark in pair)

    def reader(self, index: int = 0) -> Reader:
        """A reader of the answer with this index, from its beginning."""
        form = self.form
        if form is None:
            return _Plain()
        if form.thoughts and not self.calls:
            return _Thoughts(form, opened=self.opened)
        tools = {tool.name: tool.parameters for tool in self.tools}
        return Parser(form, tools=tools, opened=self.opened, new_id=self._ids(index))

    def going_on(self, index: int = 0) -> Reader:
        """As `reader`, after the text that was there before."""
        reader = self.reader(index)
        reader.feed(self.before)
        return reader

    def completion(self, written: Written) -> Completion:
        """A completion as it is read."""
        reader = self.reader(written.index)
        told = _Told.of([*reader.feed(written.text), *reader.end()])
        known = by_name(self.tools)
        calls = tuple(
            ToolCall(begins.id, begins.name, text, known.get(begins.name))
            for begins, text in told.calls
        )
        values = values_of(written)
        if calls and written.finish_reason == "stop":
            values["finish_reason"] = "tool_calls"
        values["text"] = told.said
        return Completion(
            **values,
            reasoning=told.thought,
            tool_calls=calls,
            written=written.text,
            format=self.format,
        )

    def _ids(self, index: int) -> Callable[[], str]:
        """Ids of calls: those of one answer are the same each time that it is read."""
        count = 0

        def next_id() -> str:
            nonlocal count
            count += 1
            digest = blake2b(f"{self._secret} {index} {count}".encode(), digest_size=8).digest()
            number = int.from_bytes(digest)
            digits = ""
            for _ in range(_ID_LENGTH):
                number, digit = divmod(number, len(_ID_CHARACTERS))
                digits += _ID_CHARACTERS[digit]
            return digits

        return next_id


def reading_of(wanted: Wanted, form: Format, *, opened: bool) -> Reading:
    """How an answer is read of which this is wanted."""
    tools = wanted.callable
    return Reading(form, calls=bool(tools), tools=tools, opened=opened, format=wanted.format)


class Readers:
    """The readers of all answers of a request, as their pieces come."""

    def __init__(self, reading: Reading, indices: Iterable[int]) -> None:
        self._of = {index: reading.going_on(index) for index in indices}

    def piece(self, written: WrittenPiece) -> Piece:
        """A piece as it is read."""
        deltas = self._of[written.index].feed(written.text) if written.text else []
        return _piece(written, deltas)

    def end(self, index: int) -> Piece | None:
        """An answer has ended: what was held back of it, if anything."""
        deltas = self._of[index].end()
        return _piece(WrittenPiece("", (), index=index), deltas) if deltas else None


def said(deltas: Iterable[Delta]) -> str:
    """What is said in these; of what is no call all that the model wrote."""
    return "".join(delta.text for delta in deltas if isinstance(delta, Content | NoCall))


def opens_thought(form: Format, prompt: str) -> bool:
    """Whether a prompt ends with the mark that begins a thought."""
    return any(
        re.search(rf"{re.escape(mark)}\s*\Z", prompt) is not None for mark, _ in form.thoughts[:1]
    )


def _piece(written: WrittenPiece, deltas: list[Delta]) -> Piece:
    return Piece(
        said(deltas),
        written.token_ids,
        written.logprobs,
        written.index,
        deltas=tuple(deltas),
        written=written.text,
    )


@dataclass
class _Told:
    """What deltas come to."""

    said: str = ""
    thought: str = ""
    calls: list[tuple[CallBegins, str]] = field(default_factory=list)

    @classmethod
    def of(cls, deltas: list[Delta]) -> _Told:
        told, begun = cls(said=said(deltas)), dict[int, CallBegins]()
        arguments: dict[int, list[str]] = {}
        thoughts = []
        for delta in deltas:
            match delta:
                case Reasoning(text):
                    thoughts.append(text)
                case CallBegins(index):
                    begun[index], arguments[index] = delta, []
                case Arguments(index, text):
                    arguments[index].append(text)
                case CallEnds(index):
                    told.calls.append((begun[index], "".join(arguments[index])))
        told.thought = "".join(thoughts).strip()
        return told


class _Plain:
    """All of it is said."""

    def feed(self, text: str) -> list[Delta]:
        return [Content(text)] if text else []

    def end(self) -> list[Delta]:
        return []


class _Thoughts:
    """A thought, and what is said after it to the letter."""

    def __init__(self, form: Format, *, opened: bool) -> None:
        self._stream = ThoughtStream(form.thoughts, opened=opened)

    def feed(self, text: str) -> list[Delta]:
        return _deltas(self._stream.push(text))

    def end(self) -> list[Delta]:
        return _deltas(self._stream.finish())


def _deltas(parts: list[tuple[bool, str]]) -> list[Delta]:
    return [Reasoning(text) if thought else Content(text) for thought, text in parts]
