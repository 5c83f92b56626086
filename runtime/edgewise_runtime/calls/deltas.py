"""What a stream of a model's text turns out to be, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

MALFORMED, CUT, TOO_LONG = "malformed", "cut", "too long"
"""Why something is no call: what stands there is none, the stream ended in it, it is too long."""


@dataclass(frozen=True, slots=True)
class Content:
    """Text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text that was thought before the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegins:
    """A tool is called.

    Attributes:
        index: calls are counted from 0, and no number is used twice.
        id: the model's own where it gives one before the arguments, else a fresh one.
        name: of the tool; nobody has looked whether there is one.
    """

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """The next piece of a call's arguments: joined, they are the text of one JSON object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnds:
    """The arguments of a call are complete, and valid JSON."""

    index: int


@dataclass(frozen=True, slots=True)
class NoCall:
    """What began as a call, and is none; what follows it is read as ever.

    Attributes:
        index: of the call that had begun; None where none had.
        text: all of it as the model wrote it, from its mark (or the end of the call before) on.
        why: `MALFORMED`, `CUT` or `TOO_LONG`.
    """

    index: int | None
    text: str
    why: str


Delta = Content | Reasoning | CallBegins | Arguments | CallEnds | NoCall


def joined(deltas: Iterable[Delta]) -> list[Delta]:
    """The same deltas with neighbours that are pieces of one text joined."""
    found: list[Delta] = []
    for delta in deltas:
        last = found[-1] if found else None
        if (
            isinstance(delta, Content | Reasoning | Arguments)
            and isinstance(last, type(delta))
            and last == replace(delta, text=last.text)
        ):
            found[-1] = replace(delta, text=last.text + delta.text)
        else:
            found.append(delta)
    return found
