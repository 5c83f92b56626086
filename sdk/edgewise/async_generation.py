"""A request that is on its way, for asyncio."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from weakref import WeakKeyDictionary, ref

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
        mail = _mail_of(asyncio.get_running_loop())
        for choice in self._choices:
            choice.on_piece = partial(_post, mail, ref(choice), inbox.put)
            choice.on_end = partial(_post, mail, ref(choice), inbox.end, choice.index)
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

    def gather(self, seconds: float) -> None:
        """Let pieces that come within so many seconds of each other wait for one another: `more`
        then tells that there are several. The first is not held up, nor is the end of an answer."""
        self._inbox.apart_s = seconds

    @property
    def more(self) -> bool:
        """Whether a piece is there already, which is the next to be read."""
        return self._inbox.more

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

    Attributes:
        apart_s: seconds that pieces are held back for after one has been read.
    """

    def __init__(self, choices: int) -> None:
        self.apart_s = 0.0
        self._events = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        # Of a choice that has ended its index.
        self._pieces: deque[Written | int] = deque()
        self._running = set(range(choices))
        self._read_at = -math.inf
        self._held: asyncio.TimerHandle | None = None

    @property
    def ended(self) -> bool:
        """Whether no more pieces will come."""
        return not self._running

    @property
    def more(self) -> bool:
        """Whether the next that is read is a piece that is there."""
        return self._held is None and bool(self._pieces) and isinstance(self._pieces[0], Written)

    def put(self, piece: Written) -> None:
        """A choice has a piece."""
        self._pieces.append(piece)
        if self._held is not None:
            return
        now = self._events.time()
        if now - self._read_at >= self.apart_s:
            self._changed.set()
        else:
            # At the same moments for all answers: who sends them sends them together.
            due = math.ceil(now / self.apart_s) * self.apart_s
            self._held = self._events.call_at(due, self._let_go)

    def end(self, index: int) -> None:
        """A choice has ended."""
        if index in self._running:
            self._running.discard(index)
            self._pieces.append(index)
        self._let_go()

    async def get(self) -> Written | int | None:
        """Wait for the next piece, or the index of a choice that has ended; None at the end."""
        while self._running and (not self._pieces or self._held is not None):
            self._changed.clear()
            await self._changed.wait()
        if not self._pieces:
            return None
        if self.apart_s:
            self._read_at = self._events.time()
        return self._pieces.popleft()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None
        self._changed.set()


class _Mail:
    """Calls for an event loop from engines' threads: those of a step wake it once, not each."""

    def __init__(self, events: asyncio.AbstractEventLoop) -> None:
        # It is kept for as long as the loop is, see `_MAILS`, and must not keep that.
        self._events = ref(events)
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, call: Callable[[], None]) -> bool:
        """Let the loop make a call; False where it has closed. Any thread may."""
        events = self._events()
        if events is None or events.is_closed():
            return False
        self._calls.append(call)
        if not self._woken:
            self._woken = True
            try:
                events.call_soon_threadsafe(self._open)
            except RuntimeError:  # it has closed since
                return False
        return True

    def _open(self) -> None:
        # Before anything is taken out: what comes from now on wakes it again.
        self._woken = False
        while self._calls:
            self._calls.popleft()()


_MAILS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mail] = WeakKeyDictionary()


def _mail_of(events: asyncio.AbstractEventLoop) -> _Mail:
    if (found := _MAILS.get(events)) is None:
        found = _MAILS[events] = _Mail(events)
    return found


def _post(mail: _Mail, choice: ref[Choice], call: Callable[..., None], *args: object) -> None:
    """From the engine's thread: let the event loop make a call."""
    if not mail.post(partial(call, *args)) and (found := choice()) is not None:
        found.cancelled = True  # nobody reads any more
