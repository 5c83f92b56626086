"""What is known of bundles that nobody has loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

from edgewise.cache import is_bundle
from edgewise.hosting.base import Facts
from edgewise.hosting.facts import facts_of_bundle
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.seal import MANIFEST


class OnDisk:
    """The facts of bundles, each read once for as long as it stays what it is.

    For one event loop. Reading is one bundle at a time: what a tokenizer takes in memory is much
    more than its facts.
    """

    def __init__(self, *, target: str | None, context: int | None) -> None:
        """`target`, `context`: that they will be loaded for, see `facts_of_bundle`."""
        self._target = target
        self._context = context
        self._known: dict[str, tuple[tuple[int, ...], Facts | None]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def facts(self, name: str, where: str) -> Facts | None:
        """The facts of the bundle at a path; None for what is none, or cannot be read.

        `name`: that it is asked for by, one for each path.
        """
        async with self._one_at_a_time:
            stamp = await asyncio.to_thread(_stamp, where)
            if stamp is None:
                self._known.pop(name, None)
                return None
            before, facts = self._known.get(name, (None, None))
            if before != stamp:
                facts = await asyncio.to_thread(self._read, name, where)
                self._known[name] = stamp, facts
            return facts

    def _read(self, name: str, where: str) -> Facts | None:
        try:
            return facts_of_bundle(name, Path(where), target=self._target, context=self._context)
        except EdgewiseError:  # which whoever asks it is told
            return None


def _stamp(where: str) -> tuple[int, ...] | None:
    """What changes with a bundle; None where there is none."""
    folder = Path(where)
    try:
        if not is_bundle(folder):
            return None
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
