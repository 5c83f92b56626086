"""A model made of hashes: what a history of tokens leaves in memory, and which token follows it.

The state of a token is a hash of its position, its id and the states of all tokens before it. The
logits after a token are a hash of all states. A model with windows has several such digests, each
of the states within a window. So one wrong word of memory gives other tokens, and
what a request has to answer can be computed from the request alone (`answer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from edgewise_runtime.engine.completion import FinishReason
from edgewise_runtime.engine.sampling import SamplingParams

VOCAB = 64
EOS = (3, 11)

FIRST_CHARACTER = 0x4E00
"""Every token is one character, so that text and tokens say the same."""

_MASK = (1 << 64) - 1
Words = TypeVar("Words", int, npt.NDArray[np.uint64])


def mix(a: Words, b: Words) -> Words:
    """A 64-bit hash of two numbers, or of two arrays of them (the finalizer of splitmix64)."""
    z = (a * 0x9E3779B97F4A7C15 + b * 0xD1342543DE82EF95 + 0x632BE59BD9B4E019) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    mixed: Words = z ^ (z >> 31)
    return mixed


def state_of(digest: int, token: int, position: int) -> int:
    """The state of a token after others whose `digest_of` is given: 63 bits."""
    return mix(mix(digest, token), position) >> 1


def digest_of(states: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """What the first i states amount to, for every i from 0 to all: uint64 [n] gives [n + 1]."""
    each = mix(states, np.arange(len(states), dtype=np.uint64))
    return np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])


Windows = tuple[int | None, ...]
"""How many of the last states, itself included, a token sees, for each digest; None for all."""

WHOLE: Windows = (None,)


def logits_of(digest: int) -> npt.NDArray[np.float32]:
    """Logits after states with this digest: float32 [VOCAB], from 0 to 8."""
    bits = mix(np.full(VOCAB, digest, np.uint64), np.arange(VOCAB, dtype=np.uint64))
    return (bits >> 40).astype(np.float32) * np.float32(2.0**-21)


@dataclass(frozen=True, slots=True)
class Draw:
    """A row of sampling parameters as programs read it: 32-bit floats.

    `floats` are temperature (0: greedy), top_p, min_p, repetition, presence and frequency penalty.
    `allowed` are the tokens that may be drawn, where not all may.
    """

    floats: tuple[float, ...]
    top_k: int
    seed: int
    number: int
    biases: tuple[tuple[int, float], ...]
    allowed: frozenset[int] | None = None

    @property
    def penalized(self) -> bool:
        return self.floats[3:] != (1.0, 0.0, 0.0)


def draw_of(p: SamplingParams, seed: int, number: int) -> Draw:
    """The row of one request's choice `number`."""
    floats = np.array(
        [
            0.0 if p.greedy else p.temperature,
            p.top_p,
            p.min_p,
            p.repetition_penalty,
            p.presence_penalty,
            p.frequency_penalty,
        ],
        np.float32,
    )
    biases = tuple((token, float(np.float32(bias))) for token, bias in p.logit_bias.items())
    return Draw(tuple(floats.tolist()), p.top_k, seed, number, biases)


def choose(
    logits: npt.NDArray[np.float32], position: int, draw: Draw, counts: Sequence[int]
) -> int:
    """The token at `position` of a sequence, which depends on everything it is given.

    Args:
        counts: per token twice the times sampled, plus 1 if the prompt has it; only looked at
            where a penalty is on.
    """
    scores = logits.astype(np.float64)
    temperature, top_p, min_p, repetition, presence, frequency = draw.floats
    if draw.penalized:
        seen = np.asarray(counts)
        scores[seen > 0] /= repetition
        scores -= presence * (seen > 1) + frequency * (seen >> 1)
    for token, bias in draw.biases:
        scores[token] += bias
    if draw.allowed is not None:
        scores[[token for token in range(VOCAB) if token not in draw.allowed]] = -np.inf
    if temperature == 0:
        return int(scores.argmax())
    # Not how programs filter, but every parameter matters.
    settings = int(top_p * 1e6) + (int(min_p * 1e6) << 20) + (draw.top_k << 40)
    state = mix(mix(mix(draw.seed, draw.number), position), settings)
    noise = logits_of(state).astype(np.float64)
    return int((scores / temperature + noise).argmax())


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request has to give.

    `digests` are those of the histories that the tokens were drawn after.
    """

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    digests: tuple[int, ...] = ()


def digest_after(tokens: Sequence[int], windows: Windows = WHOLE) -> int:
    """The digest of the states of all these tokens."""
    if windows != WHOLE:
        return History(tokens, windows).digest
    digest = 0
    for position, token in enumerate(tokens):
        digest = (digest + mix(state_of(digest, token, position), position)) & _MASK
    return digest


class History:
    """What a text is in memory, token by token."""

    def __init__(self, tokens: Iterable[int], windows: Windows) -> None:
        self._windows = windows
        self._sums = [0]
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        """One token more."""
        position = len(self._sums) - 1
        state = state_of(self._seen(own=False), token, position)
        self._sums.append(self._sums[-1] + mix(state, position))

    @property
    def digest(self) -> int:
        """Of all that the last one sees."""
        return self._seen(own=True)

    def _seen(self, *, own: bool) -> int:
        """The digest of what the last token sees, or the next one but for itself."""
        end, total = len(self._sums) - 1, 0
        for window in self._windows:
            first = 0 if window is None else max(0, end - window + (not own))
            total += self._sums[end] - self._sums[first]
        return total & _MASK


class Rooms(Protocol):
    """What `toy_constraint.Maze` says of itself."""

    @property
    def start(self) -> int: ...
    def tokens(self, state: int) -> frozenset[int]: ...
    def advance(self, state: int, token: int) -> int | None: ...
    def may_end(self, state: int) -> bool: ...
    def must_end(self, state: int) -> bool: ...
    def free(self, state: int) -> bool: ...


def answer(
    prompt: Sequence[int],
    params: SamplingParams,
    *,
    context: int,
    seed: int = 0,
    number: int = 0,
    eos: Sequence[int] = EOS,
    shortened: Iterable[Sequence[int]] = (),
    maze: Rooms | None = None,
    windows: Windows = WHOLE,
) -> Answer:
    """Compute what a request gives directly, from nothing but the request.

    Args:
        seed: of the request, where its parameters have none.
        number: which of its choices.
        shortened: prompts to go on with, one after the other, where the context is full.
        maze: what it has to follow.
        windows: of the model.
    """
    ends = {*params.stop_token_ids, *(() if params.ignore_eos else eos)}
    if params.seed is not None:
        seed = params.seed
    unending = replace(params, logit_bias={**params.logit_bias, **dict.fromkeys(ends, -1e4)})
    shorter = iter(shortened)
    tokens: list[int] = []
    digests: list[int] = []
    text = ""

    def result(text: str, reason: FinishReason) -> Answer:
        return Answer(tuple(tokens), text, reason, tuple(digests))

    room: int | None = None if maze is None else maze.start
    if maze is not None and maze.must_end(maze.start):
        return result("", "stop")
    if params.max_tokens == 0:
        return result("", "length")
    history = History(prompt, windows)
    while True:
        known = [*prompt, *tokens]
        counts = (2 * np.bincount(tokens, minlength=VOCAB)).astype(np.int64)
        counts[list(prompt)] |= 1
        digests.append(history.digest)
        now = unending if len(tokens) < params.min_tokens else params
        draw = draw_of(now, seed, number)
        if maze is not None and room is not None and not maze.free(room):
            allowed = maze.tokens(room)
            if maze.may_end(room) and not (len(tokens) < params.min_tokens and allowed):
                allowed |= ends
            draw = replace(draw, allowed=allowed)
        token = choose(logits_of(history.digest), len(known), draw, counts)
        history.add(token)
        tokens.append(token)
        if token in ends:
            return result(text, "stop")
        text += text_of([token])
        # One character a token: whatever a stop string completes, this token completed it.
        if found := [text.index(stop) for stop in params.stop if stop in text]:
            return result(text[: min(found)], "stop")
        if maze is not None and room is not None:
            room = maze.advance(room, token)
            if room is not None and maze.must_end(room):
                return result(text, "stop")
        if len(tokens) == params.max_tokens:
            return result(text, "length")
        if len(known) + 1 == context:
            following = next(shorter, None)
            if following is None:
                return result(text, "length")
            prompt = following
            history = History([*prompt, *tokens], windows)


def text_of(tokens: Sequence[int]) -> str:
    """The text of tokens."""
    return "".join(chr(FIRST_CHARACTER + token) for token in tokens)
