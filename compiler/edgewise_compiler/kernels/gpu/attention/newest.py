"""How decode attention takes in the newest token of a sequence by itself.

Each workgroup rotates the queries that it attends for. The one whose segment has the newest
position rotates its key, too, and writes key and value into their page, from where all its threads
read them as those of any other token: the numbers, bit for bit, that `rope_append` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import RopeSpec
from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.attention.common import SEEN, code_word, scales_for
from edgewise_compiler.kernels.gpu.attention.rotary import (
    elements,
    inverse_rms,
    largest_of,
    rotated,
    squares,
)
from edgewise_compiler.kernels.gpu.operations import lane, larger, number, vector_of
from edgewise_compiler.kernels.gpu.reduce import Combine, combine_group
from edgewise_compiler.kernels.gpu.thread import Thread, bind, buffer_barrier, store, when
from edgewise_runtime.format.abi import PAGE_TOKENS, TABLE_HEADER


def newest_arguments(spec: RopeSpec) -> tuple[Arg, ...]:
    """What attention reads for it: qkv float32 [N, (HQ+2*HK)*D], not rotated; rope float32
    [C, 2, D/2], the cosines then the sines of a position, if anything turns; with ``norm_eps``
    qk_norm float32 [2, D], the weights of every query head, then of every key head."""
    half = _half(spec)
    return (
        Arg("qkv", "float32x4", (spec.rows, spec.heads + 2 * spec.kv_heads, 2, half)),
        *((Arg("rope", "float32x4", (spec.context, spec.rope_rows, half)),) if spec.turns else ()),
        *((Arg("qk_norm", "float32x4", (2, 2, half)),) if spec.norm_eps is not None else ()),
    )


def combines(spec: RopeSpec) -> bool:
    """Whether threads of a head combine something, in shared memory."""
    return spec.norm_eps is not None or spec.kv_dtype == "int8"


@dataclass(frozen=True)
class Newest:
    """The newest token of a sequence, as the threads of a workgroup have it.

    Attributes:
        thread, spec: of the kernel, whose rows are one of each sequence.
        named: the kernel's buffers by their names; pages in vectors as `SEEN` has them.
        sequence, position: of the token.
        scratch: shared float32, one a thread, where the spec combines.
    """

    thread: Thread
    spec: RopeSpec
    named: Mapping[str, Buffer]
    sequence: Expr
    position: Expr
    scratch: Buffer | None

    def queries(self, into: Buffer, head: Expr, heads: int, scale: float) -> None:
        """Rotate some of its query heads, from ``head`` on, into shared memory, times ``scale``.

        All threads of the workgroup must come along; a barrier is for who reads.
        """
        half, lanes = _half(self.spec), self._lanes
        place = bind(T.floormod(self.thread.t, lanes))
        i = bind(T.min(place, half - 1))
        at_once = self.thread.threads // lanes
        for first in range(0, heads, at_once):
            g = bind(T.floordiv(self.thread.t, lanes) + first)
            # Threads without a head or without a vector read a neighbour's and write nothing.
            busy = bind((g < heads) & (place < half))
            pair = self._rotated(bind(head + T.min(g, heads - 1)), 0, i, busy)
            with when(busy):
                for j, vector in enumerate(pair):
                    scaled = bind(vector * number(scale, "float32x4"))
                    for k in range(4):
                        element = g * (8 * half) + (j * half + i) * 4 + k
                        store(into, lane(scaled, k), element)

    def append(self, h: Expr) -> None:
        """Write its key and value of KV head ``h`` into their page, for the workgroup to read.

        All threads of the workgroup must come along.
        """
        spec, named, half = self.spec, self.named, _half(self.spec)
        coded = spec.kv_dtype == "int8"
        t = self.thread.t
        first_of = spec.heads + h, spec.heads + spec.kv_heads + h
        i = bind(T.min(t, half - 1))
        busy = bind(t < half)
        keys = self._rotated(bind(first_of[0]), 1, i, busy)
        pages = named["table"][self.sequence, TABLE_HEADER + T.floordiv(self.position, PAGE_TOKENS)]
        page, slot = bind(pages), bind(T.floormod(self.position, PAGE_TOKENS))
        word: Expr | None = None
        inverses: list[Expr] = []
        if coded:
            values = [bind(self._value(first_of[1], j * half + i)) for j in range(2)]
            largest = [self._combined(largest_of(pair), busy, larger) for pair in (keys, values)]
            word, inverses = scales_for(largest)

        def stored(vector: Expr, which: int) -> list[Expr]:
            """Four numbers as elements of a page."""
            if coded:
                return [bind(code_word(vector, inverses[which]))]
            return elements(spec.kv_dtype, vector)

        packed = SEEN[spec.kv_dtype].packed
        kv = named["kv"]
        quad, lane_of = bind(T.floordiv(slot, 4)), bind(T.floormod(slot, 4))
        with when(busy):
            for j, vector in enumerate(keys):
                for k, element in enumerate(stored(vector, 0)):
                    run = bind((j * half + i) * (4 // packed) + k)
                    at = bind(run * (PAGE_TOKENS // 4) + quad)
                    store(kv, _put(kv[page, 0, h, at], lane_of, element), page, 0, h, at)
        vectors = 2 * half // packed
        with when(t < vectors):
            found = []
            for k in range(packed):
                found += stored(bind(self._value(first_of[1], bind(t * packed + k))), 1)
            store(kv, vector_of(*found), page, 1, h, slot * vectors + t)
        if word is not None:
            scales = named["kv_scale"]
            with when(t == 0):
                store(scales, _put(scales[page, h, quad], lane_of, word), page, h, quad)
        buffer_barrier()

    def _rotated(self, source: Expr, which: int, i: Expr, busy: Expr) -> list[Expr]:
        """Vector ``i`` of both halves of a query's or a key's head."""
        named, eps = self.named, self.spec.norm_eps
        pair = [bind(named["qkv"][self.sequence, source, j, i]) for j in range(2)]
        if eps is not None:
            total = self._combined(squares(pair), busy, lambda a, b: a + b)
            inverse = inverse_rms(total, self.spec.head_dim, eps)
            weights = named["qk_norm"]
            pair = [bind(x * inverse * weights[which, j, i]) for j, x in enumerate(pair)]
        if not self.spec.turns:
            return pair
        row = 2 if self.spec.apart and which == 0 else 0
        cos, sin = (bind(named["rope"][self.position, row + j, i]) for j in range(2))
        first, second = pair
        return rotated(first, second, cos, sin)

    def _value(self, source: Expr, vector: Expr) -> Expr:
        half = _half(self.spec)
        at = T.floordiv(vector, half), T.floormod(vector, half)
        return self.named["qkv"][self.sequence, source, *at]

    def _combined(self, value: Expr, busy: Expr, combine: Combine) -> Expr:
        """Of all threads of a head; zero stands for those that have no part of it."""
        alone = T.Select(busy, value, number(0.0))
        return combine_group(self.thread, alone, self._lanes, combine, self.scratch)

    @property
    def _lanes(self) -> int:
        """Threads that share a head."""
        return 1 << (_half(self.spec) - 1).bit_length()


def _half(spec: RopeSpec) -> int:
    """Vectors of half a head, one a thread."""
    return spec.head_dim // 8


def _put(vector: Expr, index: Expr, element: Expr) -> Expr:
    """``vector`` with another element in lane ``index``."""
    held = bind(vector)
    return vector_of(*(T.Select(index == k, element, lane(held, k)) for k in range(4)))
