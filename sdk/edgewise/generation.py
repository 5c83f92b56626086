"""A request that is on its way: its pieces or its text as they come, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from types import TracebackType
from typing import Protocol

from edgewise.answers import Completion, Piece
from edgewise.reading import Readers
from edgewise.session import Submission
from edgewise_runtime.calls import Delta
from edgewise_runtime.engine.loop import PATIENCE, EngineLoop
from edgewise_runtime.engine.sequence import Piece as Written
from edgewise_runtime.errors import EngineError, InputError, again


class Generation(Iterator[Piece]):
    """Iterates over pieces of all choices as they come; any thread may read or cancel it.

    It goes on whether it is read or not, until its end, `cancel`, `close` or the end of a ``with``
    block; dropping it cancels it, too. An error that ended the request is raised once the pieces
    before it have been read.
    """

    def __init__(self, loop: EngineLoop, submission: Submission, *, owner: object = None) -> None:
        """Submit the choices of a request; raises as `EngineLoop.submit` does.

        `owner` is kept for as long as this is: an engine that nobody else holds.
        """
        self._loop = loop
        self._choices = tuple(submission.choices)
        self._reading = submission.reading
        self._readers = Readers(submission.reading, [one.index for one in self._choices])
        self._turn = Lock()  # several threads may read, and pieces are read in their order
        self._owner = owner
        inbox = _Inbox(len(self._choices))
        for choice in self._choices:
            choice.on_piece = inbox.put
            choice.on_end = partial(inbox.end, choice.index)
        loop.submit(self._choices)
        self._inbox = inbox

    def __next__(self) -> Piece:
        self._loop.check_process()
        # A signal whose handler lets system calls restart wakes no one.
        while not self._turn.acquire(timeout=PATIENCE):
            pass
        try:
            piece = self._read()
        finally:
            self._turn.release()
        if piece is not None:
            return piece
        self._raise_failure()
        raise StopIteration

    def _read(self) -> Piece | None:
        """Wait for the next piece; None where there will be none."""
        while (come := self._inbox.get()) is not None:
            if isinstance(come, Written):
                return self._readers.piece(come)
            if (rest := self._readers.end(come)) is not None:
                return rest
        return None

    @property
    def done(self) -> bool:
        """Whether all choices have ended, even if their pieces have not been read."""
        return self._inbox.ended

    def cancel(self) -> None:
        """End it where it is, at the latest with the step in progress; never waits."""
        self._loop.cancel(self._choices)

    def close(self) -> None:
        """End it where it is, and wait until it has; pieces that were not read are dropped."""
        if self._loop.forked:
            return
        self.cancel()
        self._inbox.drop()

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
        """What there is of each choice, once all have ended; one that failed has what came before.

        Raises InputError ``input.stream`` before that.
        """
        if not self.done:
            raise InputError(
                "The completion is not known before the stream has ended.",
                remedy="Read the stream to its end, or close it.",
                code="input.stream",
            )
        return [self._reading.completion(choice.completion()) for choice in self._choices]

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
        # Nobody can read what comes any more. (Without an inbox it was refused, and may
        # be submitted again.)
        inbox: _Inbox | None = getattr(self, "_inbox", None)
        if inbox is not None and not inbox.ended:
            self.cancel()

    def _raise_failure(self) -> None:
        for choice in self._choices:
            if choice.failure is not None:
                raise again(choice.failure)


class Pieces(Protocol):
    """What streams are made of: a request that is on its way, wherever it is computed."""

    def __iter__(self) -> Iterator[Piece]: ...

    def close(self) -> None: ...

    def completions(self) -> list[Completion]: ...


class Stream(Iterator[str]):
    """Iterates over pieces of text; none is empty, and none ends inside a character.

    The text is what is said. `deltas` has thoughts and calls of tools as well.

    It is being generated whether it is read or not. Use it in a ``with`` block, or close it, to
    cancel a generation before its end; any thread may close it. Dropping it cancels it, too.
    """

    def __init__(self, generation: Pieces) -> None:
        self._generation = generation

    def __next__(self) -> str:
        for piece in self._generation:
            if piece.text:
                return piece.text
        raise StopIteration

    def deltas(self) -> Iterator[Delta]:
        """Iterate over all that comes from now on, see `edgewise.deltas`; in place of texts, or
        after some of them."""
        for piece in self._generation:
            yield from piece.deltas

    def close(self) -> None:
        """Stop generating. What has come so far is the completion; closing twice is fine."""
        self._generation.close()

    @property
    def completion(self) -> Completion:
        """The whole text, usage and timings, once the stream has ended or been closed.

        Raises InputError ``input.stream`` before that.
        """
        return self._generation.completions()[0]

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


Start = Callable[[Submission], Generation]
"""Submits a request; raises as `EngineLoop.submit` does."""


def run_together(asked: Sequence[Submission], start: Start) -> list[Completion]:
    """Run requests side by side, those that would be too many when others of them have ended.

    Where one fails, or Ctrl-C is pressed, all are cancelled; what it was is raised.
    """
    running: list[Generation] = []
    try:
        for submission in asked:
            running.append(_start(submission, start, running))
        return [generation.result() for generation in running]
    except BaseException:
        for generation in running:
            generation.cancel()
        raise


def _start(submission: Submission, start: Start, before: Sequence[Generation]) -> Generation:
    while True:
        try:
            return start(submission)
        except EngineError as error:
            waited = next((one for one in before if not one.done), None)
            if error.code != "engine.busy" or waited is None:
                raise
            waited.result()


class _Inbox:
    """Pieces between the engine's thread and those that read.

    It knows nothing of its `Generation`, so that one nobody reads any more can go.
    """

    def __init__(self, choices: int) -> None:
        # Of a choice that has ended its index; the last one is None, which stays there.
        self._pieces: SimpleQueue[Written | int | None] = SimpleQueue()
        self._running = set(range(choices))
        self.put: Callable[[Written], None] = self._pieces.put
        """A choice has a piece."""

    @property
    def ended(self) -> bool:
        """Whether no more pieces will come."""
        return not self._running

    def end(self, index: int) -> None:
        """A choice has ended."""
        if index in self._running:
            self._running.discard(index)
            self._pieces.put(index)
            if not self._running:
                self._pieces.put(None)

    def get(self) -> Written | int | None:
        """Wait for the next piece, or the index of a choice that has ended; None at the end."""
        while True:
            try:
                # Not for ever: a signal whose handler lets system calls restart wakes no one.
                piece = self._pieces.get(timeout=PATIENCE)
            except Empty:
                continue
            if piece is None:
                self._pieces.put(None)  # for others who read
            return piece

    def drop(self) -> None:
        """Wait for the end; what has not been read by then never will be."""
        while self.get() is not None:
            pass
