"""Token ids of texts that have much in common, such as a conversation's prompts turn by turn."""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from edgewise_runtime.text.tokenizer import Tokenizer

DEFAULT_LIMIT = 4 << 20
"""Characters kept by default: some ten megabytes of text and ids."""
_OVERHEAD = 128
_WHOLE_TEXTS = 8


class SegmentCache:
    """Tokenizes prompts and reuses the ids of what it has tokenized before.

    A prompt is cut before the special tokens in it (`boundaries` tells where that gives the same
    ids), and the ids of every part are kept, the least recently used going first. Where a text
    may not be cut, the ids of the last few whole texts are kept. Safe to use from several threads.

    Attributes:
        asked: characters of the texts given to `encode`.
        tokenized: how many of them the tokenizer was run on.
    """

    def __init__(self, tokenizer: Tokenizer, *, limit: int = DEFAULT_LIMIT) -> None:
        """Keep parts of up to `limit` characters in total, each counted as 128 characters more."""
        self._tokenizer = tokenizer
        self._boundaries = tokenizer.boundaries()
        self._most_entries = sys.maxsize if self._boundaries else _WHOLE_TEXTS
        self._limit = limit
        self._kept: OrderedDict[str, array[int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()
        self.asked = 0
        self.tokenized = 0

    def encode(self, text: str) -> list[int]:
        """Return the ids of a chat prompt: `Tokenizer.encode` without added special tokens.

        Raises InputError ``input.text`` for a text with lone surrogates.
        """
        parts = self._boundaries.parts(text) if self._boundaries else [text]
        known = self._find(text, parts)
        # Outside the lock: others may go on, and at worst tokenize the same part at the same time.
        fresh = {part: self._tokenize(part) for part in dict.fromkeys(parts) if part not in known}
        self._keep(fresh)
        known |= fresh
        ids = array("I")
        for part in parts:
            ids.extend(known[part])
        return ids.tolist()

    def _tokenize(self, part: str) -> array[int]:
        return array("I", self._tokenizer.encode(part, add_special_tokens=False))

    def _find(self, text: str, parts: Iterable[str]) -> dict[str, array[int]]:
        found = {}
        with self._lock:
            self.asked += len(text)
            for part in parts:
                ids = self._kept.get(part)
                if ids is not None:
                    self._kept.move_to_end(part)
                    found[part] = ids
        return found

    def _keep(self, fresh: dict[str, array[int]]) -> None:
        with self._lock:
            for part, ids in fresh.items():
                self.tokenized += len(part)
                cost = len(part) + _OVERHEAD
                if part in self._kept or cost > self._limit:
                    continue
                self._kept[part] = ids
                self._size += cost
                while self._size > self._limit or len(self._kept) > self._most_entries:
                    self._size -= len(self._kept.popitem(last=False)[0]) + _OVERHEAD
