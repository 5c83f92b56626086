"""Generations that run: each may outlive the socket that asked for it, for a while."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Protocol

from edgewise.hosting.base import Ended, Models, Said
from edgewise.server.failing import known
from edgewise.server.socket.kept import Kept
from edgewise.server.socket.protocol import Done, Failed, Piece, Resume, Start, write
from edgewise_runtime.errors import EngineError, InputError


@dataclass(frozen=True)
class Bounds:
    """What generations may take.

    Attributes:
        generations: that run, or have ended and may still be resumed.
        linger_s: seconds for which one waits for a socket to come back.
        pieces, bytes: of one that are kept.
    """

    generations: int = 128
    linger_s: float = 30.0
    pieces: int = 8192
    bytes: int = 2 << 20


class Timer(Protocol):
    """Of something that is to happen later."""

    def cancel(self) -> object: ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls something in so many seconds."""


class Outlet(Protocol):
    """Where the messages of generations go."""

    def come(self, generation: Generation) -> None:
        """A generation has a message more."""

    def moved(self, generation: Generation) -> None:
        """A generation goes on at another outlet."""


@dataclass(eq=False)
class Generation:
    """One that was accepted.

    Attributes:
        outlet: None while no socket has it.
        fresh_from: number of the first message that came while this outlet had it.
        ended: whether its last message is among those kept.
    """

    id: str
    secret: str = field(repr=False)
    kept: Kept
    outlet: Outlet | None
    fresh_from: int = 0
    ended: bool = False
    cancelled: bool = False
    choices: list[Ended] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None

    @property
    def fresh(self) -> tuple[int, int]:
        """Messages and bytes that came while its outlet had it, and are not sent yet."""
        start = max(self.kept.cursor, self.fresh_from)
        return self.kept.next - start, self.kept.bytes_from(start)

    def say(self, said: Said) -> bool:
        """Keep a piece; False where there is no room for it."""
        text = write(Piece(self.id, self.kept.next, said))
        # With its socket gone, nobody knows what of that which was sent has come.
        room = self.kept.add(text, drop=self.outlet is not None)
        if room and self.outlet is not None:
            self.outlet.come(self)
        return room

    def end(self, last: Done | Failed) -> None:
        """Keep the last message."""
        self.kept.add_last(write(last))
        self.ended = True
        if self.outlet is not None:
            self.outlet.come(self)

    def cancel(self) -> None:
        """Let what runs end. Cancelling twice is fine."""
        if self.task is not None and not self.cancelled:
            self.cancelled = True
            self.task.cancel()


class Generations:
    """All generations of a server. For one event loop."""

    def __init__(
        self, models: Models, bounds: Bounds | None = None, later: Later | None = None
    ) -> None:
        """Generations of these models; `later` is the event loop's own where there is none."""
        self._models = models
        self._bounds = bounds or Bounds()
        self._later = later or _later
        # By digest: how long a look-up takes tells nothing of a secret.
        self._of: dict[bytes, Generation] = {}

    def start(self, outlet: Outlet, start: Start) -> Generation:
        """Begin a generation. Raises EngineError ``engine.busy`` for too many."""
        self._make_room()
        kept = Kept(self._bounds.pieces, self._bounds.bytes)
        generation = Generation(start.id, secrets.token_urlsafe(32), kept, outlet)
        self._of[_digest(generation.secret)] = generation
        generation.task = asyncio.get_running_loop().create_task(self._run(generation, start))
        generation.task.add_done_callback(partial(_ended, generation))
        return generation

    def resume(self, outlet: Outlet, asked: Resume) -> Generation:
        """Send to this outlet what comes after a number; another one loses it.

        Raises:
            InputError: ``input.resume`` where no such generation is there any more, or not what
                comes after that number.
        """
        generation = self._of.get(_digest(asked.secret))
        if generation is None or generation.id != asked.id:
            raise InputError(
                f"No generation {asked.id!r} with this secret is there: it was given up "
                f"{self._bounds.linger_s:g} s after its socket was lost, or never was.",
                remedy="Ask anew.",
                code="input.resume",
            )
        kept = generation.kept
        if not kept.rewind(asked.after):
            raise InputError(
                f"Of generation {asked.id!r} what comes after {asked.after} is not kept; "
                f"{kept.first} to {kept.next - 1} are.",
                remedy="Resume after the last message that came.",
                code="input.resume",
            )
        if generation.outlet is not None:
            generation.outlet.moved(generation)
        if generation.timer is not None:
            generation.timer.cancel()
            generation.timer = None
        generation.outlet, generation.fresh_from = outlet, kept.next
        return generation

    def leave(self, generation: Generation) -> None:
        """Its outlet is gone: it goes on, and is given up where no other one comes in time."""
        generation.outlet = None
        generation.timer = self._later(
            self._bounds.linger_s, partial(self._give_up, _digest(generation.secret))
        )

    def _give_up(self, key: bytes) -> None:
        generation = self._of.pop(key, None)
        if generation is not None:
            generation.cancel()

    def _make_room(self) -> None:
        if len(self._of) < self._bounds.generations:
            return
        # Of those that are over, the one whose socket left it longest ago.
        for key, one in self._of.items():
            if one.ended and one.timer is not None:
                one.timer.cancel()
                del self._of[key]
                return
        raise EngineError(
            f"{self._bounds.generations} generations are under way.",
            remedy="Ask again in a moment.",
            code="engine.busy",
        )

    async def _run(self, generation: Generation, start: Start) -> None:
        hosted = await self._models.get(start.model)
        async with aclosing(hosted.ask(start.ask)) as events:
            async for event in events:
                if isinstance(event, Ended):
                    generation.choices.append(event)
                elif not generation.say(event):
                    raise EngineError(
                        f"Nobody took pieces {generation.kept.cursor} and after of it.",
                        remedy="Resume sooner, or read faster.",
                        code="engine.unread",
                    )
                # Who sends comes to it, even if much has come at once.
                await asyncio.sleep(0)


def _ended(generation: Generation, task: asyncio.Task[None]) -> None:
    n, choices = generation.kept.next, tuple(generation.choices)
    error = None if task.cancelled() else task.exception()
    if task.cancelled():
        generation.end(Done(generation.id, n, choices, cancelled=True))
    elif isinstance(error, Exception):
        generation.end(Failed(known(error), generation.id, n))
    elif error is None:
        generation.end(Done(generation.id, n, choices))


def _later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
