"""Sends sessions to a server: some at a time, or when they are planned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import perf_counter

from serving.client import Raw, Server, ask, seen
from serving.figures import Seen
from serving.traffic import Session, Turn

LATEST_S = 900.0
"""Seconds after which a load is given up."""

Answers = list[tuple[Turn, Raw]]


def closed_loop(server: Server, sessions: Iterable[Session], streams: int) -> list[Seen]:
    """What clients saw of whom each takes the next session when it is done with its own."""
    waiting = iter(sessions)

    async def client(answers: Answers) -> None:
        for session in waiting:
            await _talk(server, session, perf_counter(), answers)

    async def load(answers: Answers) -> None:
        await asyncio.gather(*(client(answers) for _ in range(streams)))

    return _run(load)


def open_loop(server: Server, sessions: Sequence[Session], arrivals: Sequence[float]) -> list[Seen]:
    """What clients saw who come when they are planned, however long others still wait.

    Times count from the planned arrival, not from when a request could be sent: a server, or a
    load, that falls behind does not hide it.
    """

    async def load(answers: Answers) -> None:
        start = perf_counter()

        async def client(session: Session, at: float) -> None:
            await asyncio.sleep(start + at - perf_counter())
            await _talk(server, session, start + at, answers)

        await asyncio.gather(*map(client, sessions, arrivals))

    return _run(load)


async def _talk(server: Server, session: Session, planned: float, answers: Answers) -> None:
    """The turns of a session; a later one is planned for when the one before was answered."""
    for turn in session.turns:
        raw = await ask(server, turn, planned)
        answers.append((turn, raw))
        planned = perf_counter()


def _run(load: Callable[[Answers], Awaitable[None]]) -> list[Seen]:
    answers: Answers = []

    async def bounded() -> None:
        async with asyncio.timeout(LATEST_S):
            await load(answers)

    asyncio.run(bounded())
    return [seen(raw, turn) for turn, raw in answers]
