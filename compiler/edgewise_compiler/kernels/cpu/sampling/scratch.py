"""What the phases of sampling hand to each other, and how numbers are kept there.

Probabilities are integers: a token's weight is 2**30 * p / p_max, rounded. Sums of integers are
exact in any order, so no result depends on blocks, threads, batch or instruction set, and "the
smallest set that holds top_p of the mass" or "the token at this point of the distribution" have one
answer. A token less than 2**-31 times as likely as the best one has weight 0 and is never drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.cpu.vector import LANES, bits, cast, lanes_of, let, splat, store
from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.sampling import LEVELS, SamplingSpec

BLOCK = 4096  # tokens that one work item looks at; a power of two, a multiple of 32
SHORTLIST = 2048  # so few tokens are cheaper to copy out than to search for again
INFINITY = float("inf")
MINUS_INFINITY = -INFINITY

# Fields of a `state` row. A threshold is searched for between LO and HI, keys of scores (`key`);
# *_COUNT and *_MASS count and weigh the tokens whose score is at or above them. What is kept in the
# end: tokens above the level CUT, and of those at it the first TIES, which weigh TIE_WEIGHT each;
# all that weigh less than FLOOR excepted.
(
    RUNNING,
    KIND,
    PHASE,
    TARGET,
    LO,
    LO_COUNT,
    LO_MASS,
    HI,
    HI_COUNT,
    HI_MASS,
    TOTAL,
    TIES,
    TIE_WEIGHT,
    FLOOR,
    FILTERED,
) = range(15)
GREEDY, DRAW = range(2)  # values of KIND
SETTLED, SEARCHING, FOUND = range(3)  # values of PHASE

# Fields of a `levels` row behind the thresholds of a pass: the best score, the factor from a
# difference of scores to an exponent of two, where weights have long become 0, see above.
PEAK, SCALE, LOWEST, CUT = range(LEVELS + 1, LEVELS + 5)

# Fields of a `partial` row, about one block: what is kept, what is at or above each level (pairs),
# the best score (bits of a float32).
KEPT, FIRST_LEVEL, BEST = 0, 1, LEVELS + 1

# A "pair" is a count, in units of ONE, and a mass in one int64; pairs add up like their parts.
# A block's mass is at most 2**(30+12), its count 2**12.
_COUNT_SHIFT = 48
ONE = 1 << _COUNT_SHIFT


def sample_scratch(spec: SamplingSpec) -> tuple[Arg, ...]:
    """The scratch arguments of ``sample``, in order. What is in them does not outlive a call."""
    B, VP = spec.batch, spec.columns
    return (
        Arg("scores", "float32", (B, VP)),
        Arg("weights", "int32", (B, VP)),
        Arg("near_scores", "float32", (B, SHORTLIST + LANES)),
        Arg("near_weights", "int32", (B, SHORTLIST + LANES)),
        Arg("partial", "int64", (B, -(-VP // BLOCK), 16)),
        Arg("state", "int64", (B, 16)),
        Arg("levels", "float32", (B, 16)),
    )


@dataclass(frozen=True)
class Work:
    """The buffers of one ``sample`` kernel, its sizes and its instruction set."""

    V: int
    VP: int
    isa: str
    logits: Buffer
    table: Buffer
    sampling_f: Buffer
    sampling_i: Buffer
    biases: Buffer
    grammar_mask: Buffer
    counts: Buffer
    sampled: Buffer
    scores: Buffer
    weights: Buffer
    near_scores: Buffer
    near_weights: Buffer
    partial: Buffer
    state: Buffer
    levels: Buffer
    step: Buffer

    @property
    def blocks(self) -> int:
        """Blocks of the vocabulary."""
        return -(-self.VP // BLOCK)

    def width(self, block: Expr) -> Expr:
        """Scores in a block, those that only pad the vocabulary included; a multiple of 32."""
        return T.min(self.VP - block * BLOCK, BLOCK)

    def has(self, row: Expr, field: int, value: int) -> Expr:
        """Whether a field of the state of a row has this value."""
        return T.EQ(self.state[row, field], int64(value))

    def put(self, row: Expr, field: int, value: Expr | int) -> None:
        """Sets a field of the state of a row."""
        store(self.state, int64(value), row, field)

    def copy(self, row: Expr, field: int, source: int) -> None:
        """Sets a field of the state of a row to another one."""
        store(self.state, self.state[row, source], row, field)


def int64(value: Expr | int) -> Expr:
    """A scalar as int64."""
    return tirx.const(value, "int64") if isinstance(value, int) else cast(value, "int64")


def float32(value: float) -> Expr:
    """A float32 constant. Rounded here: TVM may fold constants in double precision."""
    return tirx.const(float(np.float32(value)), "float32")


@contextmanager
def when(condition: Expr) -> Iterator[None]:
    """What is emitted inside runs only if ``condition`` holds."""
    with T.If(condition), T.Then():
        yield


def key(score: Expr) -> Expr:
    """An int64 that orders as the float32 ``score`` does; not for NaN."""
    word = let(bits(score, "int32"))
    return int64(word ^ ((word >> 31) & 0x7FFFFFFF))


def score_at(key_: Expr) -> Expr:
    """The float32 whose key is ``key_``."""
    word = let(cast(key_, "int32"))
    return bits(word ^ ((word >> 31) & 0x7FFFFFFF), "float32")


def count_of(pair_: Expr) -> Expr:
    """The count in a pair."""
    return pair_ >> splat(_COUNT_SHIFT, lanes_of(pair_), "int64")


def mass_of(pair_: Expr) -> Expr:
    """The mass in a pair."""
    return pair_ & splat(ONE - 1, lanes_of(pair_), "int64")


def weighed(where: Expr, weight: Expr) -> Expr:
    """Lane by lane the pair of 1 and ``weight`` (int32) where ``where`` holds, else of zeros."""
    lanes = lanes_of(weight)
    one, zero = splat(ONE, lanes, "int64"), splat(0, lanes, "int64")
    return T.Select(where, cast(weight, "int64") + one, zero)
