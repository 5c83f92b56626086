"""What a stream of an answer is made of, as `edgewise.deltas` has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
    """A tool is called; calls are counted from 0. There may be no tool of that name."""

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
    """What began as a call and is none; its text, as the model wrote it, is said."""

    index: int | None
    text: str
    why: str


Delta = Content | Reasoning | CallBegins | Arguments | CallEnds | NoCall

KINDS: dict[str, type[Delta]] = {
    "content": Content,
    "reasoning": Reasoning,
    "call begins": CallBegins,
    "arguments": Arguments,
    "call ends": CallEnds,
    "no call": NoCall,
}
"""By TypeScript's names (web/calls/deltas.ts)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What came next of an answer.

    Attributes:
        text: what is said; empty for thoughts and calls.
        deltas: what that text is, and what else has come.
    """

    text: str
    deltas: tuple[Delta, ...]


def piece_of(told: Mapping[str, Any]) -> Piece:
    """A delta of the engine's, as plain data."""
    fields = {name: value for name, value in told.items() if name != "kind"}
    delta = KINDS[told["kind"]](**fields)
    return Piece(delta.text if isinstance(delta, Content | NoCall) else "", (delta,))
