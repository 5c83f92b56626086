"""How many prompt tokens a step may compute while others wait for their next token."""

from __future__ import annotations

from typing import Protocol

MIN_CHUNK = 16
"""Rows below which prefill attention has less to do at a time than it could."""

SHARE = 0.6
"""Part of the time that prefill may take while sequences decode, at least."""

SOFT, HARD = 0.8, 3.0
"""Seconds of prefill in a step, in those of the decoding beside it: what it may always take, so
that a stream waits less than twice as long for a token, and what it may take to begin soon."""

CREDIT_S = 0.3
"""Seconds of prefill that may come at once, after a while without."""

FIRST = 64
"""Tokens of the first chunk, before anything is known about how long they take."""

_OLD = 0.75


class Pace(Protocol):
    """Decides how much of a step is prefill. One thread at a time."""

    def tokens(self, most: int, decoding: int, prefilling: int) -> int:
        """Prompt tokens that a step may compute, from 0 to `most`.

        Args:
            decoding: sequences that wait for their next token.
            prefilling: sequences that wait for their first, as far as there is a place for them.
        """
        ...

    def observe(self, prefill_tokens: int, prefill_s: float, decode_s: float) -> None:
        """Take in what a step has computed and how long its parts took."""
        ...


class Unpaced:
    """As many as the budget allows, whatever that does to those who wait."""

    def tokens(self, most: int, decoding: int, prefilling: int) -> int:
        return most

    def observe(self, prefill_tokens: int, prefill_s: float, decode_s: float) -> None:
        """Nothing depends on it."""


class SharedTime:
    """Keeps the waits of running streams short, and prefill to its share of the time.

    Prefill has a credit of seconds, which grows while others decode. A short prompt finds some and
    is computed in a few steps. A long one uses it up; from then on its chunks are so long as to
    take about the time of the decoding beside them. Where even `MIN_CHUNK` tokens take longer (late
    in a long prompt, where attention has much to read), steps in between only decode: most tokens
    then come as fast as without it. Prefill's share is `SHARE`, or more where few decode and many
    wait to begin. What tokens come does not depend on any of this.
    """

    def __init__(self) -> None:
        self._decode_s: float | None = None
        self._token_s: float | None = None
        self._credit_s = CREDIT_S
        self._share = SHARE

    def tokens(self, most: int, decoding: int, prefilling: int) -> int:
        self._share = max(SHARE, prefilling / max(prefilling + decoding, 1))
        if self._credit_s <= 0:
            return 0
        if not self._decode_s or not self._token_s:
            return min(FIRST, most)
        seconds = min(max(self._credit_s, SOFT * self._decode_s), HARD * self._decode_s)
        return min(max(int(seconds / self._token_s), MIN_CHUNK), most)

    def observe(self, prefill_tokens: int, prefill_s: float, decode_s: float) -> None:
        if prefill_tokens:
            # The latest counts: a prompt's tokens grow dearer from chunk to chunk.
            self._token_s = prefill_s / prefill_tokens
        if decode_s:
            old = self._decode_s
            self._decode_s = decode_s if old is None else _OLD * old + (1 - _OLD) * decode_s
            earned = decode_s * self._share / max(1 - self._share, 0.05)
            self._credit_s = min(self._credit_s - prefill_s + earned, CREDIT_S)
        else:
            # Nobody waited.
            self._credit_s = max(self._credit_s, 0.0)
