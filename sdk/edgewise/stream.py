"""Text while it is being generated."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from types import TracebackType

from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.errors import InputError


class Stream(Iterator[str]):
    """Iterates over pieces of text; none is empty, and none ends inside a character.

    Its engine is busy until the stream has ended, been closed or been dropped. Use it in a
    ``with`` block, or close it, to cancel a generation before its end; any thread may close it.
    """

    def __init__(self, sequence: Sequence, pieces: Generator[str]) -> None:
        self._sequence = sequence
        self._pieces = pieces
        self._ended = False

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except BaseException:
            self._ended = True
            raise

    def close(self) -> None:
        """Stop generating. What has come so far is the completion; closing twice is fine."""
        self._sequence.cancel()
        # While another thread is inside the generator it cannot be closed: that thread ends it
        # after the tokens in the making, because the sequence is cancelled.
        with suppress(ValueError):
            self._pieces.close()
        self._ended = True

    @property
    def completion(self) -> Completion:
        """The whole text, usage and timings, once the stream has ended or been closed.

        Raises InputError ``input.stream`` before that.
        """
        if not self._ended:
            raise InputError(
                "The completion is not known before the stream has ended.",
                remedy="Read the stream to its end, or close it.",
                code="input.stream",
            )
        return self._sequence.completion()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
