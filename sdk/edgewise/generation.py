"""A request that is on its way: pieces as they come, and what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event
from types import TracebackType

from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.engine.loop import PATIENCE, EngineLoop
from edgewise_runtime.engine.sequence import Piece
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.errors import InputError


class _Arrivals:
    """What the engine has said about a request and nobody has read yet.

    The engine knows this and not the `Generation`: one that is dropped is found to be.
    """

    def __init__(self, choices: int) -> None:
        self.pieces: SimpleQueue[Piece] = SimpleQueue()
        self.over = Event()
        self._left = choices

    def end(self) -> None:
        """A choice has ended. Called by the engine's thread only."""
        self._left -= 1
        if not self._left:
            self.over.set()


class Generation(Iterator[Piece]):
    """Iterates over pieces of all choices as they come; any thread may read or cancel it.

    An error that ended the request is raised once its pieces have been read.
    """

    def __init__(self, loop: EngineLoop, choices: Sequence[Choice]) -> None:
        """Submit the choices of a request; raises as `EngineLoop.submit` does."""
        self._loop = loop
        self._choices = tuple(choices)
        self._arrivals = arrivals = _Arrivals(len(self._choices))
        for choice in self._choices:
            choice.on_piece = arrivals.pieces.put
            choice.on_end = arrivals.end
        loop.submit(self._choices)

    def __next__(self) -> Piece:
        while True:
            # All pieces were there before it was over.
            over = self._arrivals.over.is_set()
            try:
                if over:
                    return self._arrivals.pieces.get_nowait()
                # A signal whose handler lets system calls restart wakes no one, see `EngineLoop`;
                # and the end wakes no one who waits for a piece.
                return self._arrivals.pieces.get(timeout=PATIENCE)
            except Empty:
                if over:
                    break
        for choice in self._choices:
            if choice.failure is not None:
                raise choice.failure
        raise StopIteration

    @property
    def done(self) -> bool:
        """Whether all choices have ended, even if their pieces have not been read."""
        return self._arrivals.over.is_set()

    def cancel(self) -> None:
        """End it where it is, at the latest with the step in progress; never waits."""
        self._loop.cancel(self._choices)

    def close(self) -> None:
        """End it where it is, and wait until it has; pieces that were not read are dropped."""
        self.cancel()
        while not self._arrivals.over.wait(PATIENCE):
            pass
        with suppress(Empty):
            while True:
                self._arrivals.pieces.get_nowait()

    def result(self) -> Completion:
        """Wait for the end; return the first choice. Raises what ended the request."""
        return self.results()[0]

    def results(self) -> list[Completion]:
        """Wait for the end; return all choices. Raises what ended the request.

        Ctrl-C while waiting cancels it.
        """
        try:
            for _ in self:
                pass
        except KeyboardInterrupt:
            self.cancel()
            raise
        return self.completions()

    def completions(self) -> list[Completion]:
        """What there is of each choice, once it has ended.

        Raises InputError ``input.stream`` before that.
        """
        if not self.done:
            raise InputError(
                "The completion is not known before the stream has ended.",
                remedy="Read the stream to its end, or close it.",
                code="input.stream",
            )
        return [choice.completion() for choice in self._choices]

    def __enter__(self) -> Generation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Nobody can read what comes any more.
        for choice in getattr(self, "_choices", ()):
            choice.cancelled = True


class AsyncGeneration(AsyncIterator[Piece]):
    """Iterates over pieces of all choices as they come, in the event loop that it was made in."""

    def __init__(self, loop: EngineLoop, choices: Sequence[Choice]) -> None:
        """Submit the choices of a request; raises as `EngineLoop.submit` does."""
        self._loop = loop
        self._choices = tuple(choices)
        self._arriving: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._left = len(self._choices)
        send = _sender(asyncio.get_running_loop(), self._arriving)
        for choice in self._choices:
            choice.on_piece = send
            choice.on_end = partial(send, None)
        loop.submit(self._choices)

    async def __anext__(self) -> Piece:
        while self._left:
            try:
                piece = await self._arriving.get()
            except asyncio.CancelledError:
                self.cancel()
                raise
            if piece is not None:
                return piece
            self._left -= 1
        for choice in self._choices:
            if choice.failure is not None:
                raise choice.failure
        raise StopAsyncIteration

    def cancel(self) -> None:
        """End it where it is, at the latest with the step in progress; never waits."""
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
        return [choice.completion() for choice in self._choices]

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
        for choice in getattr(self, "_choices", ()):
            choice.cancelled = True


def _sender(
    events: asyncio.AbstractEventLoop, queue: asyncio.Queue[Piece | None]
) -> Callable[[Piece | None], None]:
    """Put things into a queue from the engine's thread."""

    def send(piece: Piece | None) -> None:
        # Once the event loop has closed, nobody reads any more.
        with suppress(RuntimeError):
            events.call_soon_threadsafe(queue.put_nowait, piece)

    return send
