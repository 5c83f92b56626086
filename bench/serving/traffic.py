"""Who asks a server for what, and when: five shapes of traffic, each from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from random import Random

FIRST, LAST = 32, 32
"""Token ids at both ends of a vocabulary that no prompt has: special ones are there."""
LEAST_VOCAB = 128


@dataclass(frozen=True)
class Turn:
    """One request: the prompt's token ids, and the tokens that are answered."""

    prompt: tuple[int, ...]
    tokens: int


@dataclass(frozen=True)
class Session:
    """Requests of one client, each of which begins when the one before has been answered."""

    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Lengths:
    """What sessions of a shape are made of, tokens; pairs are the least and the most.

    Attributes:
        own: of a session's first prompt that no other session has.
        tokens: of an answer.
        shared: that all sessions begin with.
        turns: requests of a session.
        between: what a turn adds to the prompt of the one before: a made-up answer and what a
            tool said, for what a random model answers cannot be known before.
    """

    own: tuple[int, int]
    tokens: tuple[int, int]
    shared: int = 0
    turns: int = 1
    between: tuple[int, int] = (0, 0)

    @property
    def longest(self) -> int:
        """The most tokens of a prompt and its answer."""
        later = (self.turns - 1) * self.between[1]
        return self.shared + self.own[1] + later + self.tokens[1]


@dataclass(frozen=True)
class Shape:
    """A shape of traffic.

    Attributes:
        burst: sessions that arrive at the same moment in an open loop.
        share: of the usual number of sessions that are asked, for those that take long.
    """

    lengths: Lengths
    burst: int = 1
    share: float = 1.0


SHAPES = {
    "short": Shape(Lengths((16, 64), (24, 48))),
    "long": Shape(Lengths((768, 1024), (48, 64)), share=0.5),
    "bursty": Shape(Lengths((32, 256), (24, 64)), burst=8),
    "shared": Shape(Lengths((16, 48), (24, 48), shared=512)),
    "agent": Shape(Lengths((32, 64), (24, 40), shared=256, turns=4, between=(64, 128)), share=0.5),
}
"""By name: many short requests, few long ones, bursts, one system prompt, loops of agents."""


def sessions(lengths: Lengths, count: int, vocab: int, seed: str) -> list[Session]:
    """The same sessions for the same seed; another seed shares no prompt's beginning with it.

    Raises ValueError for a vocabulary of fewer than `LEAST_VOCAB` tokens.
    """
    if vocab < LEAST_VOCAB:
        raise ValueError(f"a vocabulary of {vocab} tokens is smaller than {LEAST_VOCAB}")
    random = Random(seed)
    draw = _drawing(random, vocab)
    shared = draw(lengths.shared)
    return [Session(tuple(_turns(lengths, shared, draw, random))) for _ in range(count)]


def _turns(
    lengths: Lengths,
    shared: tuple[int, ...],
    draw: Callable[[int], tuple[int, ...]],
    random: Random,
) -> Iterator[Turn]:
    prompt = shared + draw(random.randint(*lengths.own))
    for turn in range(lengths.turns):
        if turn:
            prompt += draw(random.randint(*lengths.between))
        yield Turn(prompt, random.randint(*lengths.tokens))


def _drawing(random: Random, vocab: int) -> Callable[[int], tuple[int, ...]]:
    def draw(count: int) -> tuple[int, ...]:
        return tuple(random.randrange(FIRST, vocab - LAST) for _ in range(count))

    return draw


def arrivals(rate: float, count: int, seed: str, burst: int = 1) -> list[float]:
    """Seconds from the start at which sessions arrive: a Poisson process of so many a second.

    Those of a burst arrive at once, and bursts so much more seldom.
    """
    random = Random(seed)
    times = accumulate(random.expovariate(rate / burst) for _ in range(-(-count // burst)))
    return list(islice((at for at in times for _ in range(burst)), count))
