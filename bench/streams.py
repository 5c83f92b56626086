"""What streaming clients saw, turned into figures; and who asks for how much.

Standard library only: the peers' processes use it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from random import Random
from statistics import mean, median, quantiles

from protocol import Answer


@dataclass(frozen=True)
class Arrival:
    """A piece of a stream: when it came, in seconds of `perf_counter`, and its tokens."""

    at: float
    tokens: int


@dataclass
class Stream:
    """One client: when it asked, and what has come so far."""

    asked: float
    arrivals: list[Arrival] = field(default_factory=list)

    @property
    def first(self) -> float:
        return self.arrivals[0].at

    @property
    def last(self) -> float:
        return self.arrivals[-1].at

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.first - self.asked

    @property
    def tokens(self) -> int:
        return sum(arrival.tokens for arrival in self.arrivals)

    def reached(self, tokens: int) -> float:
        """When the first `tokens` tokens had come."""
        counts = accumulate(arrival.tokens for arrival in self.arrivals)
        return next(a.at for a, n in zip(self.arrivals, counts, strict=True) if n >= tokens)


def whole(streams: Sequence[Stream]) -> Answer:
    """Figures from the first request to the last token: tokens a second of all, median TTFT."""
    seconds = max(s.last for s in streams) - min(s.asked for s in streams)
    return {
        "seconds": seconds,
        "whole_tok_s": sum(stream.tokens for stream in streams) / seconds,
        "ttft_s": median(stream.ttft for stream in streams),
    }


def together(streams: Sequence[Stream]) -> Answer:
    """Figures of clients that asked together and for the same: those of `whole`, and decoding.

    ``decode_tok_s`` counts from when the last client had its first token: prompts are done then,
    and every client decodes.
    """
    start = max(stream.first for stream in streams)
    end = max(stream.last for stream in streams)
    tokens = sum(a.tokens for stream in streams for a in stream.arrivals if a.at > start)
    return {
        **whole(streams),
        "decode_tok_s": tokens / (end - start),
        "itl_s": median(gaps(streams, start, end)),
    }


def gaps(streams: Iterable[Stream], since: float, until: float) -> list[float]:
    """Seconds from token to token, of tokens that came after `since` and up to `until`.

    A piece of m tokens counts m times with an m-th of the time since the piece before: so a burst
    is neither m - 1 tokens for nothing nor one that stalled. The first piece of a stream has no
    gap.
    """
    found: list[float] = []
    for stream in streams:
        for before, arrival in pairwise(stream.arrivals):
            if since < arrival.at <= until:
                found += [(arrival.at - before.at) / arrival.tokens] * arrival.tokens
    return found


def longest_gap(streams: Iterable[Stream], since: float, until: float) -> float:
    """The longest that a client saw nothing, seconds, a silence that has not ended included."""
    longest = 0.0
    for stream in streams:
        times = [a.at for a in stream.arrivals if since < a.at <= until]
        ends = [since, *times, until]
        longest = max([longest, *(b - a for a, b in pairwise(ends))])
    return longest


def under_prefill(streams: Sequence[Stream], since: float, long: Stream) -> Answer:
    """How streams fared while a long prompt came in, beside `since` until then."""
    idle = median(gaps(streams, since, long.asked))
    during = gaps(streams, long.asked, long.first)
    busy = median(during)
    return {
        "seconds": long.ttft,
        "ttft_s": long.ttft,
        "idle_itl_s": idle,
        "busy_itl_s": busy,
        "busy_p90_s": quantiles(during, n=10, method="inclusive")[-1],
        "busy_longest_s": longest_gap(streams, long.asked, long.first),
        "itl_under_prefill": busy / idle,
    }


def behind_long(
    alone: Iterable[Stream], behind: Sequence[Stream], long_alone: Stream, long: Stream
) -> Answer:
    """How short prompts fared that came while a long one was computed, and how the long one did,
    each beside itself alone."""
    waits = [stream.ttft for stream in behind]
    short_s, short_alone_s = median(waits), median(stream.ttft for stream in alone)
    return {
        "seconds": long.ttft,
        "shorts": float(len(waits)),
        "short_s": short_s,
        "short_longest_s": max(waits),
        "short_alone_s": short_alone_s,
        "short_over_alone": short_s / short_alone_s,
        "long_s": long.ttft,
        "long_alone_s": long_alone.ttft,
        "long_over_alone": long.ttft / long_alone.ttft,
    }


@dataclass(frozen=True)
class Ask:
    """Tokens of a prompt and tokens to generate."""

    prompt: int
    tokens: int


def mixed(count: int, seed: int, most: int) -> list[Ask]:
    """Requests as a server sees them: both lengths log-normal, at most `most` together.

    Medians of 160 tokens in and 80 out, with a long tail to the right (sigma 1.0 and 0.8).
    """
    random = Random(seed)
    asks = []
    for _ in range(count):
        tokens = _between(4, random.lognormvariate(4.382, 0.8), most // 4)
        asks.append(Ask(_between(4, random.lognormvariate(5.075, 1.0), most - tokens), tokens))
    return asks


def _between(low: int, value: float, high: int) -> int:
    return max(low, min(round(value), high))


@dataclass(frozen=True)
class Held:
    """KV at the end of a step: slots that hold a token, slots allocated, sequences they are for."""

    live: int
    allocated: int
    sequences: int


def kv_use(steps: Iterable[Held], context: int) -> Answer:
    """Shares of allocated KV that held tokens, averaged over steps.

    ``kv_preallocated`` is what it would be had every sequence `context` slots of its own.
    """
    counted = [step for step in steps if step.sequences and step.allocated]
    return {
        "kv_live": mean(step.live / step.allocated for step in counted),
        "kv_preallocated": mean(step.live / (step.sequences * context) for step in counted),
        "kv_sequences": mean(step.sequences for step in counted),
        "steps": float(len(counted)),
    }
