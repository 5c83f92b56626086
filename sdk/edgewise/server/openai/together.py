"""The events of several requests as those of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from edgewise.hosting.base import Event

WAITING = 64
"""Events that wait to be read; those who have more to say wait then."""


@dataclass(frozen=True)
class _End:
    error: Exception | None = None


async def together(
    sources: Sequence[AsyncGenerator[Event, None]], choices: int
) -> AsyncGenerator[Event, None]:
    """The events of requests that run beside each other, as they come.

    Args:
        choices: that each has; those of the second request are counted on from those of the first.

    Raises what the first to fail raises; the others are cancelled then.
    """
    come: asyncio.Queue[Event | _End] = asyncio.Queue(WAITING)

    async def read(first: int, source: AsyncGenerator[Event, None]) -> None:
        try:
            async with aclosing(source):
                async for event in source:
                    await come.put(replace(event, index=first + event.index))
            await come.put(_End())
        except Exception as error:  # raised where the events are read
            await come.put(_End(error))

    # No task group: whoever reads the first event may be another task than who reads the rest.
    tasks = [asyncio.create_task(read(at * choices, one)) for at, one in enumerate(sources)]
    running = len(tasks)
    try:
        while running:
            event = await come.get()
            if not isinstance(event, _End):
                yield event
            elif event.error is not None:
                raise event.error
            else:
                running -= 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
