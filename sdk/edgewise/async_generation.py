"""A request that is on its way, for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from weakref import ref

from edgewise.answers import Completion, Piece
from edgewise.reading import Readers
from edgewise.session import Submission
from edgewise_runtime.engine.loop import EngineLoop
from edgewise_runtime.engine.sequence import Piece as Written
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.errors import again


class AsyncGeneration(AsyncIterator[Piece]):
    """Iterates over pieces of all choices as they come, in the event loop that it was made in.

    It goes on whether it is read or not, until its end, `cancel`, `aclose`, the end of an ``async
    with`` block, or the cancellation of a task that waits for it; dropping it cancels it, too. An
    error that ended the request is raised once the pieces before it have been read.
    """

    def __init__(self, loop: EngineLoop, submission: Submission, *, owner: object = None) -> None:
        """Submit the choices of a request; raises as `EngineLoop.submit` does.

        `owner` is kept for as long as this is: an engine that nobody else holds.
        """
        self._loop = loop
        self._choices = tuple(submission.choices)
        self._reading = submission.reading
        self._readers = Readers(submission.reading, [one.index for one in self._choices])
        self._owner = owner
        inbox = _Inbox(len(self._choices))
        events = asyncio.get_running_loop()
        for choice in self._choices:
            choice.on_piece = partial(_post, events, ref(choice), inbox.put)
            choice.on_end = partial(_post, events, ref(choice), inbox.end, choice.index)
        loop.submit(self._choices)
        self._inbox = inbox

    async def __anext__(self) -> Piece:
        while True:
            try:
                come = await self._inbox.get()
            except asyncio.CancelledError:
                self.cancel()
                raise
            if come is None:
                break
            if isinstance(come, Written):
                return self._readers.piece(come)
            if (rest := self._readers.end(come)) is not None:
                return rest
        for choice in self._choices:
            if choice.failure is not None:
                raise again(choice.failure)
        raise StopAsyncIteration

    @property
    def done(self) -> bool:
        """Whether all choices have ended, even if their pieces have not been read."""
        return self._inbox.ended

    def cancel(self) -> None:
        """End it where it is, at the latest with the step in progress; any thread may call this."""
        self._loop.cancel(self._choices)

    async def aclose(self) -> None:
        """End it where it is, and wait until it has; pieces that were not read are dropped."""
        self.cancel()
        with suppress(Exception):
            async for _ in self:
                pass

    async def result(self) -> Completion:
        """Wait for the end; return the first choice. Raises what ended the request."""
        return (await self.results())[0]

    async def results(self) -> list[Completion]:
        """Wait for the end; return all choices. Raises what ended the request."""
        async for _ in self:
            pass
        return [self._reading.completion(choice.completion()) for choice in self._choices]

    async def __aenter__(self) -> AsyncGeneration:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # Nobody can read what comes any more. (Without an inbox it was refused, and may
        # be submitted again.)
        inbox: _Inbox | None = getattr(self, "_inbox", None)
        if inbox is not None and not inbox.ended:
            self.cancel()


class _Inbox:
    """Pieces in the event loop's thread, for tasks that wait for them.

    It knows nothing of its `AsyncGeneration`, so that one nobody reads any more can go.
    """

    def __init__(self, choices: int) -> None:
        self._changed = asyncio.Event()
        # Of a choice that has ended its index.
        self._pieces: deque[Written | int] = deque()
        self._running = set(range(choices))

    @property
    def ended(self) -> bool:
        """Whether no more pieces will come."""
        return not self._running

    def put(self, piece: Written) -> None:
        """A choice has a piece."""
        self._pieces.append(piece)
        self._changed.set()

    def end(self, index: int) -> None:
        """A choice has ended."""
        if index in self._running:
            self._running.discard(index)
            self._pieces.append(index)
        self._changed.set()

    async def get(self) -> Written | int | None:
        """Wait for the next piece, or the index of a choice that has ended; None at the end."""
        while not self._pieces and self._running:
            self._changed.clear()
            await self._changed.wait()
        return self._pieces.popleft() if self._pieces else None


def _post(
    events: asyncio.AbstractEventLoop,
    choice: ref[Choice],
    call: Callable[..., None],
    *args: object,
) -> None:
    """From the engine's thread: let the event loop make a call."""
    try:
        events.call_soon_threadsafe(call, *args)
    except RuntimeError:
        # The event loop has closed: nobody reads any more.
        if (found := choice()) is not None:
            found.cancelled = True
