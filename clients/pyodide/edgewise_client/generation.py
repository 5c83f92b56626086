"""A generation that runs, handed from the engine in JavaScript to whoever waits for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from edgewise_client.deltas import Piece, piece_of
from edgewise_client.errors import errors_of_javascript
from edgewise_client.javascript import from_js
from edgewise_client.results import Completion, completion_of


class Generation:
    """Iterate it with ``async for`` for pieces, which are handed out once, or await its `result`.

    Leaving early (`aclose` of the iterator, or a task that is cancelled) stops it.
    """

    def __init__(self, running: Any) -> None:
        """Args: running: a `Generation` of TypeScript's."""
        self._running = running

    async def __aiter__(self) -> AsyncGenerator[Piece, None]:
        ended = False
        try:
            with errors_of_javascript():
                async for delta in self._running.deltas:
                    yield piece_of(from_js(delta))
            ended = True
        finally:
            # Python's loops do not tell JavaScript's iterators that they have left.
            if not ended:
                self.cancel()

    async def result(self) -> Completion:
        """Wait for its end, however it comes.

        Raises:
            EdgewiseError: what the engine says.
        """
        ended = False
        try:
            with errors_of_javascript():
                completion = await self._running.completion
            ended = True
        finally:
            if not ended:
                self.cancel()
        return completion_of(from_js(completion))

    def cancel(self) -> None:
        """End it where it is; its result then says ``cancelled``."""
        self._running.stop()
