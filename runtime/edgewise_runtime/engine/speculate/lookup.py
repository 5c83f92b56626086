"""Drafts from the text itself: what followed the last time it read like this.

Apoorv Saxena, "Prompt Lookup Decoding", 2023. It costs next to nothing, and is right where an
answer repeats its prompt: edits of code, summaries, quotations, chats over the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgewise_runtime.engine.speculate.base import VERIFYING, DraftView
from edgewise_runtime.errors import InputError


class PromptLookup:
    """Copies what followed the most recent earlier occurrence of the last few tokens.

    Of the last `ngram_max` tokens down to the last `ngram_min`, the longest that occurred before
    counts. An occurrence that reaches into the copy goes round (as in LZ77), so that a loop of
    three tokens gives a draft of any length.

    Only what was followed by one of the last `window` tokens is remembered, which bounds the
    memory of a sequence: about half a kilobyte for a token of the window. Taking in a new token
    takes a constant time.
    """

    def __init__(self, *, ngram_max: int = 4, ngram_min: int = 1, window: int = 8192) -> None:
        """Raises InputError ``input.draft`` unless 1 ≤ ngram_min ≤ ngram_max and window ≥ 1."""
        if not 1 <= ngram_min <= ngram_max or window < 1:
            raise InputError(
                f"ngram_min {ngram_min}, ngram_max {ngram_max} and window {window} do not fit.",
                remedy="Choose 1 ≤ ngram_min ≤ ngram_max and a window of at least 1 token.",
                code="input.draft",
            )
        self._lengths = range(ngram_min, ngram_max + 1)
        self._window = window
        self._indexes: dict[int, _Index] = {}

    @property
    def cost(self) -> float:
        """As `Drafter.cost`: looking up takes microseconds."""
        return VERIFYING

    def propose(self, sequence: DraftView, k: int) -> tuple[int, ...]:
        """As `Drafter.propose`: k tokens, or none where nothing occurred before."""
        tokens = sequence.tokens
        if k < 1 or not tokens:
            return ()
        if sequence.key not in self._indexes:
            self._indexes[sequence.key] = _Index(self._lengths, self._window)
        index = self._indexes[sequence.key]
        index.update(tokens)
        start = index.find(tokens)
        if start is None:
            return ()
        copied = tuple(tokens[start : start + k])
        return (copied * -(-k // len(copied)))[:k]

    def propose_all(self, wanted: Sequence[tuple[DraftView, int]]) -> list[tuple[int, ...]]:
        """As `Drafter.propose_all`."""
        return [self.propose(sequence, k) for sequence, k in wanted]

    def forget(self, key: int) -> None:
        """As `Drafter.forget`."""
        self._indexes.pop(key, None)

    def close(self) -> None:
        """As `Drafter.close`."""
        self._indexes.clear()


class _Index:
    """Where each n-gram of a growing sequence last occurred, as the index of what followed it."""

    def __init__(self, lengths: range, window: int) -> None:
        self._lengths = lengths
        self._window = window
        self._followed: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def update(self, tokens: Sequence[int]) -> None:
        """Take in the tokens that are new since the last time."""
        end = len(tokens)
        if not 0 <= end - self._seen <= self._window:
            # A leap past everything that is kept; or another text, though it should not be one.
            self._followed.clear()
            self._seen = max(0, end - self._window)
        for gram, at in self._grams(tokens, self._seen, end):
            self._followed[gram] = at
        for gram, at in self._grams(tokens, self._seen - self._window, end - self._window):
            if self._followed.get(gram) == at:
                del self._followed[gram]
        self._seen = end

    def find(self, tokens: Sequence[int]) -> int | None:
        """Index of what followed the longest n-gram that also ends the tokens, None for none."""
        last = tuple(tokens[-self._lengths[-1] :])
        for length in reversed(self._lengths):
            if length <= len(last):
                found = self._followed.get(last[len(last) - length :])
                if found is not None:
                    return found
        return None

    def _grams(
        self, tokens: Sequence[int], start: int, end: int
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        """The n-grams that tokens `start` to `end` follow, each with the follower's index."""
        first = max(0, start - self._lengths[-1])
        part = tuple(tokens[first : max(end, 0)])
        for at in range(max(start, 0), end):
            for length in self._lengths:
                if length <= at:
                    yield part[at - length - first : at - first], at
