"""What sampling must compute, in NumPy and by sorting: twice.

``sample`` names the token the kernel draws, bit for bit: float32 where the kernel rounds to that,
integers for the rest. ``distribution`` is the textbook in float64 and shares nothing with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_compiler.kernels.numbers import EXP2
from edgewise_runtime.format.abi import MASK_BITS, MAX_BIASES, NOT_FINITE, mask_words

Array = npt.NDArray[Any]

FLOAT_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Request:
    """The sampling parameters of one sequence, all off by default."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    biases: tuple[tuple[int, float], ...] = ()
    seed: int = 0
    sequence: int = 0
    ignore_eos: bool = False
    allowed: frozenset[int] | None = None

    @property
    def penalized(self) -> bool:
        """Whether a penalty is on."""
        return (self.repetition, self.presence, self.frequency) != (1.0, 0.0, 0.0)

    def floats(self) -> list[float]:
        """The row of ``sampling_f``."""
        penalties = [self.repetition, self.presence, self.frequency]
        return [self.temperature, self.top_p, self.min_p, *penalties, 0.0, 0.0]

    def integers(self) -> list[int]:
        """The row of ``sampling_i``."""
        low, high = (
            int(np.array(self.seed >> shift & 0xFFFFFFFF, "uint32").view("int32"))
            for shift in (0, 32)
        )
        biases = len(self.biases)
        numbers = [self.top_k, low, high, biases, int(self.ignore_eos), self.sequence]
        return [*numbers, int(self.allowed is not None), 0]

    def listed(self) -> Array:
        """The row of ``biases`` [2, 320], around what is listed NaN."""
        rows = np.full((2, MAX_BIASES), np.nan, np.float32).view(np.int32)
        for i, (token, bias) in enumerate(self.biases):
            rows[0, i], rows[1, i] = token, np.float32(bias).view(np.int32)
        return rows

    def mask(self, V: int) -> Array:
        """The row of ``grammar_mask``. Of one that is not masked no bit is set: nobody looks."""
        words = np.zeros(mask_words(V), np.uint32)
        for token in self.allowed or ():
            words[token // MASK_BITS] |= np.uint32(1 << token % MASK_BITS)
        return words.view(np.int32)


def philox4x32(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox4x32-10 in Python integers (Salmon et al., "Parallel random numbers", SC 2011)."""
    words, keys = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            (second >> 32) ^ words[1] ^ keys[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ words[3] ^ keys[1],
            first & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def fma(a: Array, b: Array, c: Array) -> Array:
    """a*b + c in float32 with one rounding: the sum is rounded to odd in float64 before."""
    product = np.float64(a) * np.float64(b)
    total = product + np.float64(c)
    part = total - product
    error = (product - (total - part)) + (np.float64(c) - part)
    word = np.atleast_1d(total).view(np.int64)
    even = (word & 1 == 0) & (np.atleast_1d(error) != 0) & np.isfinite(np.atleast_1d(total))
    away = np.where(np.sign(np.atleast_1d(error)) == np.sign(np.atleast_1d(total)), 1, -1)
    odd = np.where(even, word + away, word).view(np.float64)
    return odd.astype(np.float32).reshape(np.shape(total))


def exp2(x: Array) -> Array:
    """2**x for x <= 0 as the kernels compute it."""
    x = np.clip(np.float32(x), np.float32(-126), np.float32(127))
    whole = np.rint(x)
    part = x - whole
    value = np.full(x.shape, EXP2[0], np.float32)
    for term in EXP2[1:]:
        value = fma(value, part, np.float32(term))
    return np.ldexp(value, whole.astype(np.int32))


def scores(logits: Array, counts: Array, request: Request) -> Array:
    """Logits after penalties, biases and mask; never NaN, +inf or -0."""
    values = np.float32(logits)
    if request.penalized:
        repetition = np.float32(request.repetition)
        sampled = np.int64(counts) >> 1
        shift = fma(-np.float32(request.frequency), sampled, -np.float32(request.presence))
        shift = np.where(sampled > 0, shift, np.float32(0))
        weaker = np.where(values > 0, values / repetition + shift, fma(values, repetition, shift))
        values = np.where(counts > 0, weaker, values)
    values = _clean(values)
    for token, bias in request.biases:
        if 0 <= token < len(values):
            values[token] = _clean(values[token] + np.float32(bias))
    if request.allowed is not None:
        values[[token for token in range(len(values)) if token not in request.allowed]] = -np.inf
    return values


def _clean(values: Array) -> Array:
    values = np.where(np.isnan(values), np.float32(-np.inf), values)
    return np.minimum(values, np.float32(FLOAT_MAX)) + np.float32(0)


def weights(values: Array, temperature: float) -> Array:
    """2**30 * p / p_max of every token, rounded, from its score."""
    scale = np.float32(np.log2(np.e)) / np.clip(np.float32(temperature), *np.float32([1e-6, 1e6]))
    likeness = exp2((values - values.max()) * scale)
    return (likeness * np.float32(2**30) + np.float32(0.5)).astype(np.int64)


def kept(values: Array, masses: Array, request: Request) -> Array:
    """Which tokens are left after top-k, top-p and min-p: bool."""
    order = np.argsort(-np.float64(values), kind="stable")
    if request.top_k > 0:
        order = order[: request.top_k]
    if request.top_p < 1:
        summed = np.cumsum(masses[order])
        share = np.float64(np.float32(request.top_p)) * float(summed[-1])
        order = order[: int(np.searchsorted(summed, max(1, np.ceil(share)))) + 1]
    mask = np.zeros(len(values), bool)
    mask[order] = True
    return mask & (masses >= np.ceil(float(np.float32(request.min_p)) * 2**30)) & (masses > 0)


def sample(logits: Array, counts: Array, request: Request, position: int) -> int:
    """The token that the kernel draws at ``position`` from logits[V] and counts[V], or NOT_FINITE.

    ``counts`` is twice the times a token was sampled, plus 1 if the prompt has it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        values = scores(logits, counts, request)
        if np.isnan(logits).any() or np.isposinf(logits).any() or np.isneginf(values.max()):
            return NOT_FINITE
        if not request.temperature > 0:
            return int(values.argmax())
        masses = weights(values, request.temperature)
    masses = np.where(kept(values, masses, request), masses, 0)
    key = (request.seed & 0xFFFFFFFF, request.seed >> 32)
    word = philox4x32((position, request.sequence, 0, 0), key)[0]
    point = int(masses.sum()) * word >> 32
    return int(np.searchsorted(np.cumsum(masses), point, side="right"))


def distribution(logits: Array, counts: Array, request: Request) -> Array:
    """The probability of every token, float64, by the textbook."""
    values = np.float64(logits)
    seen = counts > 0
    values[seen] = np.where(values > 0, values / request.repetition, values * request.repetition)[
        seen
    ]
    sampled = np.int64(counts) >> 1
    values -= request.presence * (sampled > 0) + request.frequency * sampled
    for token, bias in request.biases:
        values[token] += bias
    p = np.exp((values - values.max()) / request.temperature)
    p /= p.sum()
    order = np.argsort(-values, kind="stable")
    if request.top_k > 0:
        p[order[request.top_k :]] = 0
        p /= p.sum()
    if request.top_p < 1:
        before = np.cumsum(p[order]) - p[order]
        p[order[1:][before[1:] >= request.top_p]] = 0
    p[p < request.min_p * p.max()] = 0
    return p / p.sum()
