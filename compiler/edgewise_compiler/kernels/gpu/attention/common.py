"""What the GPU kernels that read or write KV pages share.

A layer's pages are one buffer (pages, 2, HK, 16*D): keys as [d][token], values as [token][d].
Kernels see it as vectors of four: of one page and KV head, key vector d*4 + u holds tokens 4u..4u+3
at d, value vector token*D/4 + c holds 4c..4c+3 of a token. Positions and page ids are int32.

Pages of words have several numbers in one, so that no two tokens share a word: float16 two (for
GPUs without numbers of 16 bits) and keys as [d/2][token][d%2], int8 four codes and keys as
[d/4][token][d%4]. A vector of four words has the keys of tokens 4u..4u+3 at two or four d, the
values of a token at eight or 16. The scales of codes (pages, HK, 16) are a word for every token:
two float16, the key's scale, then the value's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import PagedHeads
from edgewise_compiler.kernels.function import Arg, live_rows
from edgewise_compiler.kernels.gpu.operations import (
    bits,
    cast,
    dtype_of,
    i32,
    join,
    lane,
    nearest,
    number,
    pack_halves,
    softcapped,
    u32,
    unpack_halves,
    vector_of,
)
from edgewise_compiler.kernels.gpu.thread import Thread, bind, keep, local, store, when
from edgewise_compiler.kernels.numbers import (
    BEYOND_HALF,
    INFINITY_BITS,
    NAN_BITS,
    SEGMENT,
    SEGMENT_PAGES,
)
from edgewise_runtime.format.abi import (
    MAX_BINDING,
    MAX_PAGES,
    PAGE_TOKENS,
    Q_LEN,
    SEQUENCES,
    STOP,
    TABLE_HEADER,
)
from edgewise_runtime.format.dtypes import DTYPES

QUADS = PAGE_TOKENS // 4  # vectors of keys of a page at one d
SEGMENT_QUADS = SEGMENT // 4
_LARGEST_HALF = 65504.0  # of float16; what `pack_halves` makes of more is undefined
_NAN_HALF = 0x7E00  # a float16
_SIZE = 0x7FFFFFFF  # of a float32's bits those that are not its sign
LOWEST = -3.0e38  # the score of a key that takes no part; not every language has infinity


@dataclass(frozen=True)
class Seen:
    """How kernels see the keys and values of pages, in vectors of four elements.

    Attributes:
        element: dtype of an element.
        packed: numbers in one. A vector of keys has those of four tokens at so many d, a vector of
            values so many runs of four d.
        keys: what a vector of keys holds: at each d, the four tokens' as a float32x4.
        values: what a vector of values holds: each run as a float32x4.
        run: one of these runs, by its number modulo ``packed``.
    """

    element: str
    packed: int
    keys: Callable[[Expr], list[Expr]]
    values: Callable[[Expr], list[Expr]]
    run: Callable[[Expr, Expr], Expr]


def kv_vectors(spec: PagedHeads) -> tuple[Arg, ...]:
    """A layer's KV pages in vectors as `SEEN` has them, and the scales of int8 pages."""
    HK, D, seen = spec.kv_heads, spec.head_dim, SEEN[spec.kv_dtype]
    vectors = PAGE_TOKENS * D // (4 * seen.packed)
    pages = Arg("kv", f"{seen.element}x4", (MAX_PAGES, 2, HK, vectors))
    if spec.kv_dtype != "int8":
        return (pages,)
    return pages, Arg("kv_scale", "uint32x4", (MAX_PAGES, HK, QUADS))


def pool_pages(spec: PagedHeads) -> int:
    """How many pages of a layer one buffer holds at most."""
    seen = SEEN[spec.kv_dtype]
    numbers = 2 * spec.kv_heads * PAGE_TOKENS * spec.head_dim
    page = numbers // seen.packed * DTYPES[seen.element]
    return max(1, min(MAX_PAGES, MAX_BINDING // page))


def page_of(
    table: Buffer,
    sequence: Expr,
    segment: Expr,
    nth: Expr,
    pages: Expr,
    segment_pages: int = SEGMENT_PAGES,
) -> Expr:
    """The page that is ``nth`` of a segment; past its ``pages`` live pages the last one again."""
    return bind(table[sequence, TABLE_HEADER + segment * segment_pages + T.min(nth, pages - 1)])


def pages_of(keys: Expr) -> Expr:
    """How many pages hold ``keys`` tokens."""
    return bind(T.floordiv(keys + (PAGE_TOKENS - 1), PAGE_TOKENS))


def find_tile(thread: Thread, table: Buffer, step: Buffer, batch: int, rows: int) -> Buffer:
    """Whose tile a workgroup has in x: the sequence, or -1 for none, and which of its tiles of so
    many rows. Stopped sequences have none."""
    found = local((3,), "int32")  # the third: tiles left to pass
    store(found, -1, 0)
    store(found, 0, 1)
    store(found, thread.x, 2)
    with T.serial(0, live_rows(step, SEQUENCES, batch)) as i:
        live = bind(T.Select(table[i, STOP] == 0, table[i, Q_LEN], 0))
        tiles = bind(T.floordiv(live + (rows - 1), rows))
        left = bind(found[2])
        here = T.And(left >= 0, left < tiles)
        store(found, T.Select(here, i, found[0]), 0)
        # The last tiles, which take longest, come first.
        store(found, T.Select(here, tiles - 1 - left, found[1]), 1)
        store(found, found[2] - tiles, 2)
    return found


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


def key_codes(words: Expr) -> list[Expr]:
    """The codes of four tokens' keys at d, d+1, d+2 and d+3: of each d a float32x4."""
    return [_floats((words >> _all(8 * j) if j else words) & _all(0xFF)) for j in range(4)]


def value_codes(words: Expr) -> list[Expr]:
    """16 codes of one token's value as four float32x4."""
    return [bind(part) for part in map(word_codes, (lane(words, i) for i in range(4)))]


def word_codes(word: Expr) -> Expr:
    """The four codes of a word as a float32x4."""
    word = bind(word)
    shifted = [word >> u32(8 * i) if i else word for i in range(4)]
    return _floats(vector_of(*shifted) & _all(0xFF))


def nth_lane(vector: Expr, n: Expr) -> Expr:
    """Element ``n`` modulo 4 of a vector of four."""
    n = bind(T.floormod(n, 4))
    low = T.Select(n == 0, lane(vector, 0), lane(vector, 1))
    high = T.Select(n == 2, lane(vector, 2), lane(vector, 3))
    return T.Select(n < 2, low, high)


def low_and_high(words: Expr) -> list[Expr]:
    """The low float16 of four words, and the high ones, a float32x4 each.

    Keys at two neighbouring d; or the scales of four tokens' keys, then of their values.
    """
    pairs = [bind(unpack_halves(lane(words, i))) for i in range(4)]
    return [bind(vector_of(*(lane(pair, half) for pair in pairs))) for half in range(2)]


def half_words(numbers: Expr) -> list[Expr]:
    """Four numbers as float16 in two words: each the nearest float16, of two the even one.

    What a device rounds by when it packs is its own matter, so numbers are rounded before, by their
    bits: what is packed has 11 of them and fits as it is. Below 2**-14, where float16 has fewer,
    the device rounds after all, and may give zero. What float16 cannot hold is NaN.
    """
    most = number(_LARGEST_HALF, "float32x4")
    held = bind(T.max(T.min(numbers, most), number(-_LARGEST_HALF, "float32x4")))
    exact = bind(bits(held, "uint32"))
    odd = bind((exact >> _all(13)) & _all(1))
    rounded = bind(bits(bind((exact + odd + _all(0xFFF)) & _all(0xFFFFE000)), "float32"))
    lanes = [lane(rounded, i) for i in range(4)]
    nans = [T.Select(beyond_half(lane(numbers, i)), u32(_NAN_HALF), u32(0)) for i in range(4)]
    return [
        bind(pack_halves(*lanes[i : i + 2]) | nans[i] | (nans[i + 1] << u32(16))) for i in (0, 2)
    ]


def beyond_half(number: Expr) -> Expr:
    """Whether float16 cannot hold a float32: it is too large, infinite or NaN. By its bits, for a
    compiler may assume that floats are finite."""
    return (bits(number, "uint32") & u32(_SIZE)) >= u32(BEYOND_HALF)


def half_or_nan(number: Expr) -> Expr:
    """A float32 as float16, NaN where that cannot hold it."""
    nan = T.Select(beyond_half(number), u32(NAN_BITS), u32(0))
    return cast(bits(bits(number, "uint32") | nan, "float32"), "float16")


def spoiled(total: Expr, scores: Expr) -> Expr:
    """``total``, a positive float32, or NaN where one of four scores is not finite.

    A maximum and a bounded power make something finite of such a score. What is divided by this
    total does not stay finite.
    """
    sizes = bind(bits(scores, "uint32") & _all(_SIZE))
    largest = T.max(T.max(lane(sizes, 0), lane(sizes, 1)), T.max(lane(sizes, 2), lane(sizes, 3)))
    nan = T.Select(largest >= u32(INFINITY_BITS), u32(NAN_BITS), u32(0))
    return bind(bits(bits(total, "uint32") | nan, "float32"))


def scales_for(largest: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
    """The word of scales of a key and a value with these largest magnitudes, and each 1/scale.

    The inverses are of the scales as they are stored, zero where there is nothing but zeros.
    """
    most = number(_LARGEST_HALF)
    of_key, of_value = (bind(x * number(1.0 / 127)) for x in largest)
    word = bind(pack_halves(T.min(of_key, most), T.min(of_value, most)))
    # Scales that float16 cannot hold are infinite or NaN: so are the numbers that they stand for.
    for scale, nan in ((of_key, _NAN_HALF), (of_value, _NAN_HALF << 16)):
        word = bind(word | T.Select(beyond_half(scale), u32(nan), u32(0)))
    pair = bind(unpack_halves(word))
    scales = [bind(lane(pair, i)) for i in range(2)]
    zero = number(0.0)
    return word, [bind(T.Select(x > zero, number(1.0) / x, zero)) for x in scales]


def code_word(numbers: Expr, inverse: Expr) -> Expr:
    """Four numbers times ``inverse`` as codes in a word, in order from its low byte."""
    word: Expr = u32(0)
    for i in range(4):
        rounded = nearest(lane(numbers, i) * inverse)
        held = T.max(T.min(rounded, number(127.0)), number(-127.0))
        word = word | (keep(u32(i32(held)) & u32(0xFF)) << u32(8 * i))
    return word


def _all(value: int) -> Expr:
    return number(value, "uint32x4")


def _floats(byte: Expr) -> Expr:
    """Codes in the low bytes of a uint32x4 as float32x4, by the bits of a float.

    With its sign bit turned around a code is code + 128. In the low bits of the float 2**23 that is
    added to it, and the difference is exact; converting integers is slow on many GPUs.
    """
    biased = bits(bind(byte ^ _all(0x4B000080)), "float32")
    return bind(biased - number(2.0**23 + 128, "float32x4"))


def widened(value: Expr) -> Expr:
    """A vector of keys or values in float32."""
    return value if dtype_of(value) == "float32x4" else cast(value, "float32")


def masked(value: Expr, first: Expr, keys: Expr, otherwise: float, low: Expr | None = None) -> Expr:
    """``value`` of four tokens from ``first`` on; ``otherwise`` for those from ``keys`` on, and for
    those before ``low``."""
    vector = bind(value)
    parts = [
        T.Select(within(first + j, keys, low), lane(vector, j), number(otherwise)) for j in range(4)
    ]
    return vector_of(*parts)


def within(token: Expr, keys: Expr, low: Expr | None) -> Expr:
    """Whether a token is one of ``keys``, of which those before ``low`` do not count."""
    return token < keys if low is None else T.And(token < keys, token >= low)


def capped(scores: Expr, cap: float | None) -> Expr:
    """Four scores as exponents of two, of what `score_scale` made of them."""
    if cap is None:
        return scores
    held = bind(scores)
    return vector_of(*(softcapped(lane(held, j), cap) for j in range(4)))


def _joined(low: Expr, high: Expr) -> Expr:
    """The four float16 in two words as a float32x4."""
    return bind(join(unpack_halves(low), unpack_halves(high)))


def _half_values(words: Expr) -> list[Expr]:
    return [_joined(lane(words, i), lane(words, i + 1)) for i in (0, 2)]


def _half_run(words: Expr, c: Expr) -> Expr:
    first = bind(T.floormod(c, 2) == 0)
    return _joined(*(T.Select(first, lane(words, i), lane(words, i + 2)) for i in (0, 1)))


def _floats_seen(element: str) -> Seen:
    def alone(vector: Expr) -> list[Expr]:
        return [bind(widened(vector))]

    return Seen(element, 1, alone, alone, lambda vector, _: widened(vector))


SEEN: Mapping[str, Seen] = {
    "float32": _floats_seen("float32"),
    "float16": _floats_seen("float16"),
    "float16x2": Seen("uint32", 2, low_and_high, _half_values, _half_run),
    "int8": Seen("uint32", 4, key_codes, value_codes, lambda v, c: word_codes(nth_lane(v, c))),
}
"""By what pages hold."""
