"""How many prompt tokens a step may compute while others wait for their next token."""

from __future__ import annotations

from typing import Protocol

MIN_CHUNK = 16
"""Rows below which prefill attention has less to do at a time than it could."""

SHARE = 0.5
"""Part of the time that prefill may take while sequences decode."""

TARGET = 0.8
"""Seconds of prefill in a step, in those of the decoding beside it: together less than twice."""

_OLD = 0.75


class Pace(Protocol):
    """Decides how much of a step is prefill. One thread at a time."""

    def tokens(self, most: int) -> int:
        """Prompt tokens that a step with decoding sequences may compute, from 0 to `most`."""
        ...

    def observe(self, prefill_tokens: int, prefill_s: float, decode_s: float) -> None:
        """Take in what a step has computed and how long its parts took."""
        ...


class Unpaced:
    """As many as the budget allows, whatever that does to those who wait."""

    def tokens(self, most: int) -> int:
        return most

    def observe(self, prefill_tokens: int, prefill_s: float, decode_s: float) -> None:
        """Nothing depends on it."""


class SharedTime:
    """Keeps the waits of running streams short, and prefill to its share of the time.

    A chunk is as long as prefill takes `TARGET` of the time of a decoding step, so a stream waits
    less than twice as long for its next token. Where even `MIN_CHUNK` tokens take longer (late in
    a long prompt, where attention has much to read), the following steps only decode, until
    prefill has had no more than `SHARE` of the time: most tokens then come as fast as without it.
    Neither can make a prompt wait for ever. What tokens come does not depend on it.
    """

    def __init__(self) -> None:
        self._decode_s: float | None = None
        self._token_s: float | None = None
        self._owed_s = 0.0

    def tokens(self, most: int) -> int:
        if self._owed_s > 0:
            return 0
        if not self._decode_s or not self._token_s:
            return min(MIN_CHUNK, most)
        fitting = int(TARGET * self._decode_s / self._token_s)
        return min(max(fitting, MIN_CHUNK), most)

    def observe(self, prefill_tokens: int, prefill_s: float, decode_s: float) -> None:
        if decode_s:
            old = self._decode_s
            self._decode_s = decode_s if old is None else _OLD * old + (1 - _OLD) * decode_s
        else:
            self._owed_s = 0.0
        if prefill_tokens:
            # The latest counts: a prompt's tokens grow dearer from chunk to chunk.
            self._token_s = prefill_s / prefill_tokens
        if decode_s:
            due = prefill_s * (1 - SHARE) / SHARE - decode_s
            self._owed_s = max(self._owed_s + due, 0.0) if due > 0 or self._owed_s > 0 else 0.0
