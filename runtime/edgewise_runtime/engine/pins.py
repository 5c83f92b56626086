"""Prefixes that stay on the device until they are unpinned."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Rows

from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.kv.base import KvMemory
from edgewise_runtime.kv.keys import KeyChain, salted


class Pins:
    """Which prefixes are pinned in one engine's memory, and which are to be.

    Args:
        memory: where their pages are.
        root: the key before a prefix without extras.
    """

    def __init__(self, memory: KvMemory, root: bytes) -> None:
        self._memory = memory
        self._root = root
        self._keys: dict[tuple[tuple[str, ...], tuple[int, ...]], tuple[bytes, ...]] = {}
        self._coming: list[Sequence] = []

    def expect(self, sequences: Iterable[Sequence]) -> None:
        """Look out for the end of those that are to be pinned."""
        self._coming += [sequence for sequence in sequences if sequence.request.pin]

    def settle(self) -> None:
        """Pin what those have computed that have ended, as long as they hold it: afterwards it
        might have to make room."""
        if not self._coming:
            return
        for sequence in self._coming:
            if sequence.finish_reason == "length":
                self.pin(sequence.request.prompt, sequence.request.extras)
        self._coming = [sequence for sequence in self._coming if not sequence.ended]

    def pin(self, tokens: Rows[int], extras: tuple[str, ...]) -> int:
        """Pin the full pages that are there of a prefix; return how many tokens they hold."""
        keys = self._memory.keys_of(KeyChain(salted(self._root, extras)), tokens)
        self._memory.pin(keys)
        self.unpin(tokens, extras)
        self._keys[extras, tuple(tokens)] = keys
        return len(keys) * self._memory.page_tokens

    def unpin(self, tokens: Rows[int], extras: tuple[str, ...]) -> None:
        """Let a prefix go when its room is needed."""
        self._memory.pin(self._keys.pop((extras, tuple(tokens)), ()), -1)
