"""A row of a batch in the hands of a workgroup: its keys, what it asks for, what keys weigh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.operations import f32, i32, lane, u32
from edgewise_compiler.kernels.gpu.sampling.keys import (
    BANNED,
    UNSOUND,
    key_of,
    octaves,
    score_of,
    weight_of,
)
from edgewise_compiler.kernels.gpu.sampling.layout import LANES, Layout
from edgewise_compiler.kernels.gpu.sampling.philox import random_bits
from edgewise_compiler.kernels.gpu.thread import (
    Thread,
    barrier,
    bind,
    keep,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import WEIGHT_BITS
from edgewise_runtime.format.abi import (
    MIN_P,
    SEED_HIGH,
    SEED_LOW,
    SEQUENCE,
    SEQUENCES,
    STOP,
    TEMPERATURE,
    TOP_K,
)

OCTAVES = 32.0  # a token so many octaves below the best one has probability 0
_LOWEST_KEY = BANNED + 1


@dataclass(frozen=True)
class Heat:
    """What keys weigh at a row's temperature.

    Attributes:
        top: the best score.
        factor: octaves of a difference of one.
        lowest: the key below which all weigh nothing.
    """

    top: Expr
    factor: Expr
    lowest: Expr

    def weight(self, key: Expr) -> Expr:
        """``2**30 * p / p_max`` of a key, rounded."""
        return weight_of(key, self.top, self.factor)


def is_running(row: Expr, batch: int, table: Buffer, step: Buffer) -> Expr:
    """Whether a row of the batch is live, and has not ended within this burst."""
    return T.And(row < T.min(step[SEQUENCES], batch), T.EQ(table[row, STOP], 0))


@dataclass(frozen=True)
class Row:
    """One row of a batch.

    Attributes:
        keys: uint32x4, rows as `Layout` says.
        vocab: tokens there are.
    """

    thread: Thread
    row: Expr
    layout: Layout
    vocab: int
    keys: Buffer
    sampling_f: Buffer
    sampling_i: Buffer

    def leader(self) -> Expr:
        """Whether this thread does what only one has to."""
        return T.EQ(self.thread.t, 0)

    @contextmanager
    def vectors_of(self, block: Expr, thread: Expr) -> Iterator[Expr]:
        """A loop over the vectors of a group, of which columns have any."""
        layout = self.layout
        with T.serial(0, layout.vectors) as v:
            at = bind(block * (layout.block // LANES) + v * layout.threads + thread)
            with when(at < layout.columns // LANES):
                yield at

    def largest_of(self, block: Expr) -> Expr:
        """The largest key of a block."""
        return i32(lane(bind(self.keys[self.row, self.layout.bests // LANES + block]), 0))

    def position(self) -> Expr:
        """The position of the token drawn."""
        return i32(lane(bind(self.keys[self.row, self.layout.position // LANES]), 0))

    def peak(self) -> Expr:
        """The largest key of the row, for every thread. All of them must come here."""
        t, threads, run = self.thread.t, self.layout.threads, 16
        maxima = shared((threads + threads // run,), "int32")
        largest = local((1,), "int32")
        store(largest, BANNED, 0)
        with when(t < self.layout.blocks):
            store(largest, self.largest_of(t), 0)
        store(maxima, largest[0], t)
        barrier()
        with when(t < threads // run):
            store(maxima, _largest(maxima, t * run, run), threads + t)
        barrier()
        return _largest(maxima, i32(threads), threads // run)

    def heat(self, peak: Expr) -> Heat:
        """What keys weigh, by the largest of them; anything where that is unsound."""
        factor = octaves(self.sampling_f[self.row, TEMPERATURE])
        top = score_of(T.min(peak, i32(UNSOUND - 1)))
        lowest = T.max(key_of(keep(top - f32(OCTAVES) / factor)), i32(_LOWEST_KEY))
        return Heat(top, factor, keep(T.min(lowest, peak)))

    def top_k(self) -> Expr:
        """How many tokens top-k leaves; 0 where it leaves all."""
        k = bind(self.sampling_i[self.row, TOP_K])
        return bind(T.Select(T.And(k > 0, k < self.vocab), k, 0))

    def least_weight(self) -> Expr:
        """What a token must weigh to be drawn: something, and what min-p asks for."""
        min_p = keep(self.sampling_f[self.row, MIN_P])
        least = keep(T.min(min_p, f32(1.0)) * f32(2.0**WEIGHT_BITS))
        whole = keep(u32(T.max(least, f32(0.0))))
        rounded = keep(whole + T.Select(f32(whole) < least, u32(1), u32(0)))
        return keep(T.Select(min_p > f32(0.0), T.max(rounded, u32(1)), u32(1)))

    def random(self, position: Expr) -> Expr:
        """32 random bits for this position of this sequence."""
        numbers = self.sampling_i
        seed = (u32(numbers[self.row, SEED_LOW]), u32(numbers[self.row, SEED_HIGH]))
        return random_bits(u32(position), u32(numbers[self.row, SEQUENCE]), seed)


def _largest(keys: Buffer, first: Expr, count: int) -> Expr:
    """The largest of so many keys."""
    found = local((1,), "int32")
    store(found, keys[first], 0)
    with T.serial(1, count) as i:
        store(found, T.max(found[0], keys[first + i]), 0)
    return keep(found[0])


def keys_in(vector: Expr) -> list[Expr]:
    """The keys of a vector."""
    return [keep(i32(lane(vector, i))) for i in range(LANES)]


@contextmanager
def each_key(vector: Expr) -> Iterator[tuple[Expr, Expr]]:
    """A loop over the keys of a vector and their places in it.

    An array that is indexed by what is not constant costs some GPUs their registers.
    """
    keys = keys_in(vector)
    with T.serial(0, LANES) as i:
        yield i, keep(at_place(keys, i))


def at_place(values: list[Expr], place: Expr) -> Expr:
    """The value at a place that is known only when the kernel runs."""
    found = values[0]
    for i, value in enumerate(values[1:], start=1):
        found = T.Select(T.EQ(place, i), value, found)
    return found
