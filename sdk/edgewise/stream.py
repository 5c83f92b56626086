"""Text while it is being generated."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from edgewise.generation import Generation
from edgewise_runtime.engine.completion import Completion


class Stream(Iterator[str]):
    """Iterates over pieces of text; none is empty, and none ends inside a character.

    It is being generated whether it is read or not. Use it in a ``with`` block, or close it, to
    cancel a generation before its end; any thread may close it. Dropping it cancels it, too.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def __next__(self) -> str:
        for piece in self._generation:
            if piece.text:
                return piece.text
        raise StopIteration

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
