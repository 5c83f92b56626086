"""Scores on the GPU as integers that order as the floats do, and the probabilities they mean.

A GPU's compiler may assume that floats are neither NaN nor infinite. So scores are kept as keys:
int32 whose order is that of the floats, -infinity included, ties and all, whatever a device makes
of special values.
"""

from __future__ import annotations

import numpy as np
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.gpu.operations import bits, f32, fma, i32, nearest, u32
from edgewise_compiler.kernels.gpu.thread import keep
from edgewise_compiler.kernels.numbers import EXP2, INFINITY_BITS, LOG2E, WEIGHT_BITS

BANNED = int(np.array(0x807FFFFF, np.uint32).view(np.int32))
"""The key of -infinity: a token that is never drawn."""

UNSOUND = INFINITY_BITS
"""The key of a logit that is NaN or +infinity, above all others: its row has no token."""

_LARGEST, _MAGNITUDE = UNSOUND - 1, 0x7FFFFFFF
_TEMPERATURES = (1e-6, 1e6)
_FAR = -1e9  # differences of scores beyond it have long meant a probability of 0


def key_of(score: Expr) -> Expr:
    """The key of a float32: NaN counts as -infinity, +infinity as the largest number, -0 as 0."""
    word = keep(bits(score, "uint32"))
    size = keep(word & u32(_MAGNITUDE))
    finite = T.Select(T.EQ(size, u32(0)), u32(0), word)
    finite = keep(T.Select(T.EQ(word, u32(INFINITY_BITS)), u32(_LARGEST), finite))
    key = _turned(i32(finite))
    return keep(T.Select(size > u32(INFINITY_BITS), i32(BANNED), key))


def logit_key(logit: Expr) -> Expr:
    """The key of a logit: UNSOUND for NaN and +infinity."""
    word = keep(bits(logit, "uint32"))
    size = keep(word & u32(_MAGNITUDE))
    unsound = T.Or(T.EQ(word, u32(INFINITY_BITS)), size > u32(INFINITY_BITS))
    key = _turned(i32(T.Select(T.EQ(size, u32(0)), u32(0), word)))
    return keep(T.Select(unsound, i32(UNSOUND), key))


def score_of(key: Expr) -> Expr:
    """The float32 that has this key."""
    return keep(bits(_turned(key), "float32"))


def is_banned(score: Expr) -> Expr:
    """Whether a float32 is -infinity or NaN, by its bits."""
    word = keep(bits(score, "uint32"))
    return T.Or(T.EQ(word, u32(0xFF800000)), (word & u32(_MAGNITUDE)) > u32(INFINITY_BITS))


def octaves(temperature: Expr) -> Expr:
    """The factor from a difference of scores to a power of two, at a temperature within bounds."""
    low, high = _TEMPERATURES
    return keep(f32(LOG2E) / T.min(T.max(temperature, f32(low)), f32(high)))


def weight_of(key: Expr, peak: Expr, factor: Expr) -> Expr:
    """``2**30 * p / p_max`` of a score, rounded, as uint32; ``peak`` is the best score."""
    difference = keep(T.max(score_of(key) - peak, f32(_FAR)))
    likeness = exp2_below(keep(difference * factor))
    weight = keep(u32(fma(likeness, f32(2.0**WEIGHT_BITS), f32(0.5))))
    return keep(T.Select(T.EQ(key, i32(BANNED)), u32(0), weight))


def exp2_below(x: Expr) -> Expr:
    """2**x for x of at most 0, by the polynomial that CPU programs use."""
    x = keep(T.min(T.max(x, f32(-126.0)), f32(0.0)))
    whole = keep(nearest(x))
    part = keep(x - whole)
    power: Expr = f32(EXP2[0])
    for term in EXP2[1:]:
        power = keep(fma(power, part, f32(term)))
    return keep(bits(bits(power, "int32") + (i32(whole) << i32(23)), "float32"))


def _turned(word: Expr) -> Expr:
    """Bits of a float to a key, or back: negative ones are turned around."""
    word = keep(word)
    return keep(word ^ ((word >> i32(31)) & i32(_MAGNITUDE)))
