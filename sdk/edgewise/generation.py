"""A request that is on its way: pieces as they come, and what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType

from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.engine.loop import PATIENCE, EngineLoop
from edgewise_runtime.engine.sequence import Piece
from edgewise_runtime.engine.sequence import Sequence as Choice
from edgewise_runtime.errors import InputError


class Generation(Iterator[Piece]):
    """Iterates over pieces of all choices as they come; any thread may read or cancel it.

    An error that ended the request is raised once its pieces have been read.
    """

    def __init__(self, loop: EngineLoop, choices: Sequence[Choice]) -> None:
        """Submit the choices of a request; raises as `EngineLoop.submit` does."""
        self._loop = loop
        self._choices = tuple(choices)
        self._arriving: SimpleQueue[Piece | None] = SimpleQueue()
        self._left = len(self._choices)
        for choice in self._choices:
            choice.on_piece = self._arriving.put
            choice.on_end = self._end
        loop.submit(self._choices)

    def __next__(self) -> Piece:
        while self._left:
            # A signal whose handler lets system calls restart wakes no one, see `EngineLoop`.
            try:
                piece = self._arriving.get(timeout=PATIENCE)
            except Empty:
                continue
            if piece is not None:
                return piece
            self._left -= 1
            if not self._left:
                # For any other thread that waits: what it finds is the end, too.
                self._arriving.put(None)
        for choice in self._choices:
            if choice.failure is not None:
                raise choice.failure
        raise StopIteration

    @property
    def done(self) -> bool:
        """Whether all choices have ended, even if their pieces have not been read."""
        return all(choice.ended for choice in self._choices)

    def cancel(self) -> None:
        """End it where it is, at the latest with the step in progress; never waits."""
        self._loop.cancel(self._choices)

    def close(self) -> None:
        """End it where it is, and wait until it has; pieces that were not read are dropped."""
        self.cancel()
        with suppress(Exception):
            for _ in self:
                pass

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
        if getattr(self, "_left", 0):
            self.cancel()

    def _end(self) -> None:
        self._arriving.put(None)


class AsyncGeneration(AsyncIterator[Piece]):
    """Iterates over pieces of all choices as they come, in the event loop that it was made in."""

    def __init__(self, loop: EngineLoop, choices: Sequence[Choice]) -> None:
        """Submit the choices of a request; raises as `EngineLoop.submit` does."""
        self._loop = loop
        self._choices = tuple(choices)
        self._events = asyncio.get_running_loop()
        self._arriving: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._left = len(self._choices)
        for choice in self._choices:
            choice.on_piece = self._put
            choice.on_end = self._end
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
        if getattr(self, "_left", 0):
            self.cancel()

    def _put(self, piece: Piece | None) -> None:
        try:
            self._events.call_soon_threadsafe(self._arriving.put_nowait, piece)
        except RuntimeError:
            # The event loop has closed: nobody reads any more.
            for choice in self._choices:
                choice.cancelled = True

    def _end(self) -> None:
        self._put(None)
