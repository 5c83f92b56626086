"""Keys and values of a segment in shared memory, as instructions for matrices take them.

A word has two numbers of a sum: of keys those at two neighbouring d, of values those of two
neighbouring tokens. In vectors of four words,

    keys of d = 2i and 2i+1:      [i*KEY_STRIDE + 8*half + j]  tokens 2j, 2j+1 of blocks 2*half
                                                               and 2*half + 1, 16 tokens each
    values of tokens 2i and 2i+1: [i*value_stride(D) + c]      d = 4c to 4c+3

where the strides are such that eight threads of an instruction, which read two rows times four
columns or four times two, meet no bank of memory twice.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm.ir import Expr
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.attention.common import QUADS, SEGMENT_QUADS, deal
from edgewise_compiler.kernels.gpu.operations import lane, number, vector_of
from edgewise_compiler.kernels.gpu.thread import Thread, bind, store
from edgewise_compiler.kernels.numbers import SEGMENT
from edgewise_runtime.format.abi import PAGE_TOKENS

KEY_STRIDE = SEGMENT_QUADS + 1
LOW, HIGH = 0xFFFF, 0xFFFF0000  # the two numbers of a word


def value_stride(width: int) -> int:
    """Vectors from the values of one pair of tokens to those of the next."""
    return width // 4 + 1


def stage_pairs(
    thread: Thread,
    kv: Buffer,
    page: Callable[[Expr], Expr],
    head: Expr,
    width: int,
    keys: Buffer,
    values: Buffer,
) -> None:
    """Brings keys and values of a segment to shared memory.

    Args:
        kv: pages of float16 as uint32x2 [pages, 2, HK, 4*D].
        page: the ``nth`` page of the segment.
        head, width: the KV head, and D.
        keys, values: uint32x4 in shared memory, D/2 rows and those of 32 pairs of tokens.
    """

    def key(item: Expr, _: int) -> None:
        u, d = bind(item % QUADS), bind(item // QUADS % (width // 2))
        half = bind(item // (QUADS * (width // 2)))
        at, both = bind(d * (2 * QUADS) + u), []
        for block in (0, 1):
            source = page(half * 2 + block)
            both.append(_woven(*(kv[source, 0, head, at + i] for i in (0, QUADS))))
        place = bind(d * KEY_STRIDE + half * 8 + u * 2)
        for i in (0, 2):
            four = (words[i + j] for words in both for j in (0, 1))
            store(keys, vector_of(*four), place + i // 2)

    def value(item: Expr, _: int) -> None:
        vectors, pairs = width // 4, PAGE_TOKENS // 2
        pair, c = bind(item // vectors), bind(item % vectors)
        source, at = page(pair // pairs), bind(pair % pairs * (2 * vectors) + c)
        words = _woven(*(kv[source, 1, head, at + i] for i in (0, vectors)))
        store(values, vector_of(*words), pair * value_stride(width) + c)

    deal(thread, width * QUADS, key)
    deal(thread, SEGMENT // 2 * (width // 4), value)


def _woven(even: Expr, odd: Expr) -> list[Expr]:
    """Four numbers each of two words of float16, in turns: a word for each two."""
    even, odd = bind(even), bind(odd)
    low, high, by = (number(value, "uint32x2") for value in (LOW, HIGH, 16))
    first = bind((even & low) | (odd << by))
    second = bind((even >> by) | (odd & high))
    return [lane(words, i) for i in (0, 1) for words in (first, second)]
