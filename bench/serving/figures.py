"""What requests of a load saw, turned into figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
RATIOS = {
    "output_tok_s": "higher",
    "goodput_req_s": "higher",
    "ttft_p50_s": "lower",
    "ttft_p95_s": "lower",
    "itl_p50_s": "lower",
}
"""Figures that are compared, and which way is better."""


@dataclass(frozen=True)
class Seen:
    """A request as its client saw it, seconds of one clock.

    Attributes:
        planned: when it was to be sent; later is the load's own lateness, or the server's.
        pieces: when each piece of text came, in order; none where it failed.
        ended: when the end came: the last tokens may have no text.
        tokens: of the answer, as the server counts them.
        prompt_tokens, cached: of the prompt, and those of them that were not computed again.
        error: what went wrong; empty where nothing did.
    """

    planned: float
    pieces: tuple[float, ...] = ()
    ended: float = 0.0
    tokens: int = 0
    prompt_tokens: int = 0
    cached: int = 0
    error: str = ""

    @property
    def ttft(self) -> float:
        """Seconds from when it was planned to the first piece; without end where none came."""
        return self.pieces[0] - self.planned if self.pieces and not self.error else math.inf

    @property
    def itl(self) -> float:
        """Seconds a token after the first piece until the end, on average.

        A server may send several tokens as one piece: they share the time.
        """
        if self.error or not self.pieces:
            return math.inf
        return (self.ended - self.pieces[0]) / max(1, self.tokens - 1)


@dataclass(frozen=True)
class Slo:
    """What a request has to meet, both, to count for goodput; seconds."""

    ttft: float
    itl: float

    def met(self, seen: Seen) -> bool:
        """Whether a request did."""
        return seen.ttft <= self.ttft and seen.itl <= self.itl


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of all is not above (nearest rank).

    Raises ValueError where there is none, or for a share that is not above 0 and at most 1.
    """
    ordered = sorted(values)
    if not ordered or not 0 < share <= 1:
        raise ValueError(f"there is no quantile {share} of {len(ordered)} values")
    return ordered[math.ceil(share * len(ordered)) - 1]


def summary(seen: Sequence[Seen], slo: Slo) -> dict[str, float]:
    """Figures of one load, from the first planned request to the last end.

    Failed requests are in every percentile, as times without end.
    """
    answered = [one for one in seen if one.pieces and not one.error]
    gaps = [b - a for one in answered for a, b in pairwise(one.pieces)] or [0.0]
    begun = min(one.planned for one in seen)
    seconds = max((one.ended for one in answered), default=begun) - begun
    met = sum(map(slo.met, seen))
    per_second = 1 / seconds if seconds > 0 else 0.0
    prompts = sum(one.prompt_tokens for one in answered)
    return {
        "requests": float(len(seen)),
        "failed": float(len(seen) - len(answered)),
        "seconds": seconds,
        "output_tokens": float(sum(one.tokens for one in answered)),
        "output_tok_s": per_second * sum(one.tokens for one in answered),
        **_quantiles("ttft", [one.ttft for one in seen]),
        **_quantiles("itl", [one.itl for one in seen]),
        **_quantiles("gap", gaps),
        "goodput": met / len(seen),
        "goodput_req_s": per_second * met,
        "prefix_hit": sum(one.cached for one in answered) / prompts if prompts else 0.0,
    }


def _quantiles(name: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{name}_{key}_s": quantile(values, share) for key, share in QUANTILES.items()}


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of every figure over rounds."""
    return {name: median(one[name] for one in rounds) for name in rounds[0]}


def ratios(ours: Mapping[str, float], peer: Mapping[str, float]) -> dict[str, float]:
    """Ours over the peer's of what `RATIOS` names; left out where the peer has nothing."""
    return {name: ours[name] / peer[name] for name in RATIOS if 0 < peer[name] < math.inf}
