"""How many prompt tokens a step may compute while others wait for their next token, and how many
tokens come before the host looks at them."""

from __future__ import annotations

from typing import Protocol

from edgewise_runtime.format.abi import RING

MIN_CHUNK = 32
"""Tokens of the shortest chunk. Attention computes tiles of 16 and reads all before them for each
chunk: twice as many chunks of half the tokens take far longer."""

ROUND = 16
"""Chunks are multiples of so many tokens, the tiles of attention."""

SHARE = 0.65
"""Part of the time that prefill may take while sequences decode, at least."""

SOFT = 0.8
"""What prefill may add to a step, in steps without: a stream waits less than twice as long."""

CREDIT_S = 0.3
"""Seconds of prefill that may come before its share is looked at."""

FIRST = 32
"""Tokens of the first chunk, before anything is known about how long they take."""

MEASURE = 16
"""Steps with prefill after which one without shows again how long that takes."""

MAX_BURST = 8
"""Tokens that are decoded without the host looking, at most, but for those that take no time:"""

LONGEST_BURST = RING
"""so many at most, if they take less than"""

BURST_S = 0.02
"""seconds, for which whoever comes meanwhile waits at most."""

_OLD = 0.75


class Pace(Protocol):
    """Decides how much of a step is prefill. One thread at a time."""

    def tokens(self, most: int, decoding: int, prefilling: int) -> int:
        """Prompt tokens that a step may compute, from 0 to `most`.

        After some steps without any, those of short prompts are computed all the same.

        Args:
            decoding: sequences that wait for their next token.
            prefilling: sequences that wait for their first, as far as there is a place for them.
        """
        ...

    def burst(self) -> int:
        """Tokens of each sequence that may be decoded without the host looking, at most."""
        ...

    def observe(self, prefill_tokens: int, decoding: int, seconds: float) -> None:
        """Take in what a step has computed and how long it took, for one token of each sequence."""
        ...


class Unpaced:
    """As many as the budget allows, whatever that does to those who wait."""

    def tokens(self, most: int, decoding: int, prefilling: int) -> int:
        return most

    def burst(self) -> int:
        return MAX_BURST

    def observe(self, prefill_tokens: int, decoding: int, seconds: float) -> None:
        """Nothing depends on it."""


class SharedTime:
    """Keeps the waits of running streams short, and prefill to its share of the time.

    Chunks grow and shrink so that a step with one takes less than twice as long as one without.
    Where even `MIN_CHUNK` tokens take longer (late in a long prompt, where attention has much to
    read), prefill has had its share (`SHARE`, or more where few decode and many wait to begin)
    before long, and the following steps only decode: most tokens then come as fast as without it.
    A short prompt does not wait for that, and is not charged for: long ones would wait for it.
    What tokens come does not depend on any of this.
    """

    def __init__(self) -> None:
        self._decode_s: float | None = None
        self._chunk = float(FIRST)
        self._credit_s = CREDIT_S
        self._share = SHARE
        self._steps = 0

    def tokens(self, most: int, decoding: int, prefilling: int) -> int:
        self._share = max(SHARE, prefilling / max(prefilling + decoding, 1))
        if self._credit_s <= 0 or self._decode_s is None or self._steps >= MEASURE:
            return 0
        return min(int(self._chunk) // ROUND * ROUND, most)

    def burst(self) -> int:
        known = self._decode_s
        return max(MAX_BURST, min(int(BURST_S / known), LONGEST_BURST)) if known else MAX_BURST

    def observe(self, prefill_tokens: int, decoding: int, seconds: float) -> None:
        if not decoding:
            # Nobody waited.
            self._credit_s = max(self._credit_s, 0.0)
            return
        old = self._decode_s
        if not prefill_tokens:
            self._decode_s = seconds if old is None else _OLD * old + (1 - _OLD) * seconds
            self._steps = 0
            self._pay(0.0, seconds)
        elif old is not None:
            self._steps += 1
            if self._credit_s <= 0:
                # Not asked for, but let in.
                self._pay(0.0, min(old, seconds))
                return
            added = max(seconds - old, 0.0)
            if added > SOFT * old:
                self._chunk = max(self._chunk * 0.8, MIN_CHUNK)
            elif prefill_tokens >= int(self._chunk) // ROUND * ROUND:
                self._chunk *= 1.2
            self._pay(added, min(old, seconds))

    def _pay(self, prefill_s: float, decode_s: float) -> None:
        earned = decode_s * self._share / max(1 - self._share, 0.05)
        self._credit_s = min(self._credit_s - prefill_s + earned, CREDIT_S)
