"""What the GPU kernels that read or write KV pages share.

A layer's pages are one buffer (pages, 2, HK, 16*D): keys as [d][token], values as [token][d].
Kernels see it as vectors of four: of one page and KV head, key vector d*4 + u holds tokens 4u..4u+3
at d, value vector token*D/4 + c holds 4c..4c+3 of a token. Positions and page ids are int32.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention.common import HEADER, PAGE, SEGMENT, SEGMENT_PAGES
from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu import Thread, bind, cast, dtype_of, lane, number, vec4, when

PAGES = 65536  # declared extent of a pool: more than any binding holds
QUADS = PAGE // 4  # vectors of keys of a page at one d
SEGMENT_QUADS = SEGMENT // 4
LOWEST = -3.0e38  # stands for the score of a key that takes no part; WGSL has no infinity


def kv_vectors(HK: int, D: int, kv_dtype: str) -> Arg:
    """A layer's KV pages as vectors of four."""
    return Arg("kv", f"{kv_dtype}x4", (PAGES, 2, HK, PAGE * D // 4))


def page_of(table: Buffer, sequence: Expr, segment: Expr, nth: Expr, pages: Expr) -> Expr:
    """The page that is ``nth`` of a segment; past its ``pages`` live pages the last one again."""
    return bind(table[sequence, HEADER + segment * SEGMENT_PAGES + T.min(nth, pages - 1)])


def pages_of(keys: Expr) -> Expr:
    """How many pages hold ``keys`` tokens."""
    return bind(T.floordiv(keys + (PAGE - 1), PAGE))


def largest_divisor(size: int, most: int, multiple: int = 1) -> int:
    """The largest divisor of ``size`` up to ``most`` that is a multiple of ``multiple``."""
    fitting = (n for n in range(multiple, most + 1, multiple) if size % n == 0)
    return max(fitting)


def power_of_two_up_to(size: int) -> int:
    """The largest power of two that is not larger than ``size``."""
    return 1 << (size.bit_length() - 1)


def deal(thread: Thread, count: int, action: Callable[[Expr, int], None]) -> None:
    """``action(item, round)`` for items 0 to ``count`` - 1, which the threads take in turn."""
    for i in range(-(-count // thread.threads)):
        item = bind(thread.t + i * thread.threads)
        if (i + 1) * thread.threads <= count:
            action(item, i)
        else:
            with when(item < count):
                action(item, i)


def widened(value: Expr) -> Expr:
    """A vector of keys or values in float32."""
    return value if dtype_of(value) == "float32x4" else cast(value, "float32")


def masked(value: Expr, first: Expr, keys: Expr, otherwise: float) -> Expr:
    """``value`` of four tokens from ``first`` on; ``otherwise`` for those from ``keys`` on."""
    vector = bind(value)
    parts = [T.Select(first + j < keys, lane(vector, j), number(otherwise)) for j in range(4)]
    return vec4(*parts)
