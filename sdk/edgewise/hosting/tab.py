"""A tab of a browser that lends its GPU, what it is given, and how it is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from edgewise.hosting.base import Ask, Event
from edgewise_runtime.errors import EdgewiseError, again

TRIES = 2
"""Tabs that a request is given to, where one is lost before it has said anything."""


class Timer(Protocol):
    """Of something that is to happen later."""

    def cancel(self) -> object: ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls something in so many seconds."""


class Line(Protocol):
    """How a tab is reached; nothing here waits."""

    def begin(self, run: str, ask: Ask) -> None:
        """Ask it for an answer."""

    def halt(self, run: str) -> None:
        """No more of an answer is wanted."""

    def beat(self, beat: int) -> None:
        """Is it there?"""

    def hang_up(self, error: EdgewiseError) -> None:
        """It is not wanted any more."""


@dataclass(frozen=True)
class Lent:
    """What a tab says of itself.

    Attributes:
        model: the name of the bundle that it has loaded.
        bundle: the digest that its bundle.json carries of itself.
        tokenizer: SHA-256 of its tokenizer.json.
        program, device: what runs, on what, for people.
        context: the most tokens of prompt and answer together.
        slots: requests that it takes at a time.
    """

    model: str
    bundle: str
    tokenizer: str
    program: str
    device: str
    context: int
    slots: int


@dataclass(eq=False)
class Run:
    """A request, and what has come of it.

    Attributes:
        events: what comes of it; an error is the end, and so is an `Ended`.
        tries: tabs that it may still be given to.
        late: beats that were answered since it was halted.
        dropped: nobody wants more of it.
    """

    id: str
    ask: Ask
    events: asyncio.Queue[Event | EdgewiseError] = field(default_factory=asyncio.Queue)
    tries: int = TRIES
    dropped: bool = False
    halted: bool = False
    late: int = 0
    pieces: int = 0
    characters: int = 0

    async def next(self) -> Event:
        """What comes next. Raises what it ended with."""
        event = await self.events.get()
        if isinstance(event, EdgewiseError):
            raise again(event)
        return event


@dataclass(eq=False)
class Tab:
    """A tab that lends its GPU.

    Attributes:
        running: what it was given and has not ended, by id.
        turn: when it was given something last.
        leaving: it takes no more.
        beat, heard: the last beat that it was asked for, and that it answered.
        served: how many requests it was given.
    """

    id: str
    lent: Lent
    line: Line
    running: dict[str, Run] = field(default_factory=dict)
    turn: int = 0
    leaving: bool = False
    beat: int = 0
    heard: int = 0
    served: int = 0
    timer: Timer | None = None

    @property
    def takes(self) -> bool:
        """Whether it may be given one more."""
        return not self.leaving and len(self.running) < self.lent.slots

    @property
    def load(self) -> tuple[float, int]:
        """What balances: its share of busy slots, and then who has waited longest."""
        return len(self.running) / self.lent.slots, self.turn
