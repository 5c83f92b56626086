"""One call at a time: whose turn it is to use an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident

from edgewise_runtime.errors import InputError


class Turns:
    """Lets calls of several threads through one after the other.

    A thread that already has its turn (an open stream, say) is told so instead of waiting for
    itself for ever.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for the turn and hold it; it may be given back by another thread.

        Raises InputError ``input.busy`` where this thread holds it already.
        """
        if self._owner == get_ident():
            raise InputError(
                "The engine is in the middle of another generation of this thread.",
                remedy="Read the open stream to its end or close it first; for several prompts at "
                "once, pass them as one list.",
                code="input.busy",
            )
        with self._lock:
            self._owner = get_ident()
            try:
                yield
            finally:
                self._owner = None

    def adopt(self) -> None:
        """Make the turn in progress this thread's: it goes on with what another one began."""
        self._owner = get_ident()
