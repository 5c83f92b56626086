"""A layer's KV pages as CPU kernels see them.

float16 and float32 pages are [pages, K|V, HK, 16*D]: keys as [d][token], values as [token][d]. int8
pages hold codes in the same place but for keys, which lie as [d/4][token][d%4]: a token's codes are
whole words, which a GPU can write without knowing its neighbours, and 16 tokens' words fill a cache
line. Their scales are uint32 [pages, HK, 16], for every token two float16: the key's in the low
half, the value's in the high half. A number is code*scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, IntImm, Var

from edgewise_compiler.kernels.cpu.vector import bits, cast, let, load, splat, store, widen
from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.numbers import SEGMENT
from edgewise_runtime.format.abi import PAGE_TOKENS


def kv_arguments(HK: int, D: int, kv_dtype: str) -> tuple[Arg, ...]:
    """The buffers of a layer: its pages, and with int8 their scales."""
    # The number of pages is left open until the kernel is called. 64 bits: a pool can hold more
    # than 2**31 numbers.
    pages = Arg("kv", kv_dtype, (Var("pages", "int64"), 2, HK, PAGE_TOKENS * D))
    if kv_dtype != "int8":
        return (pages,)
    return pages, Arg("kv_scale", "uint32", (Var("pages", "int64"), HK, PAGE_TOKENS))


def widen_kv(value: Expr, isa: str) -> Expr:
    """A vector of keys or values in float32; of int8 the codes, without their scale."""
    if "int8" in str(value.ty):
        return cast(value, "float32")
    return value if "float32" in str(value.ty) else widen(value, isa)


def prefetch(kv: Buffer, *index: Expr | int) -> None:
    """Asks for the cache line that holds an element of ``kv``, without waiting for it."""
    address = T.address_of(kv[tuple(index)])
    # To read, into the second level: the first has too little room for a segment ahead.
    flags = (IntImm("int32", flag) for flag in (0, 2, 1))
    T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch", address, *flags))


def each_dimension(
    kv: Buffer,
    pages: Sequence[Expr],
    h: Expr,
    isa: str,
    body: Callable[[Expr, list[Expr]], None],
    *,
    fetch_values: bool = False,
) -> None:
    """Emits ``body(d, keys)`` for every d in order: the 16 keys of each page at d, widened.

    Args:
        h: the KV head.
        fetch_values: prefetch as many bytes of the same pages' values as are read.
    """
    packed = 4 if str(kv.dtype) == "int8" else 1  # numbers of a token that lie beside each other
    with T.serial(0, int(kv.shape[3]) // PAGE_TOKENS // packed) as i:
        if fetch_values:
            for page in pages:
                prefetch(kv, page, 1, h, i * (PAGE_TOKENS * packed))
        loaded = [
            load(kv, page, 0, h, i * (PAGE_TOKENS * packed), lanes=PAGE_TOKENS * packed)
            for page in pages
        ]
        if packed == 1:
            body(i, [widen_kv(keys, isa) for keys in loaded])
            return
        words = [let(bits(keys, "int32")) for keys in loaded]
        for j in range(packed):
            # The byte goes to the top and comes down with its sign.
            up, down = splat(24 - 8 * j, PAGE_TOKENS, "int32"), splat(24, PAGE_TOKENS, "int32")
            keys = [cast((word << up if j < 3 else word) >> down, "float32") for word in words]
            body(i * packed + j, keys)


def segment_scales(
    scales: Buffer, ids: Callable[[Expr], Expr], pages: Expr, h: Expr, factor: float, isa: str
) -> tuple[Buffer, Buffer]:
    """The scales of a segment of int8 keys, times ``factor``, and of its values: float32 [SEGMENT].

    Args:
        scales: uint32 [pages, HK, PAGE_TOKENS]: the key's scale as float16 in the low half, the
            value's in the high half.
        ids: the segment's i-th page.
        pages: how many it has; what belongs to others is undefined.
    """
    of_keys, of_values = (T.sblock_alloc_buffer((SEGMENT,), "float32") for _ in range(2))
    with T.serial(0, pages) as i:
        words = let(load(scales, ids(i), h, 0))
        low = words & splat(0xFFFF, PAGE_TOKENS, "uint32")
        high = words >> splat(16, PAGE_TOKENS, "uint32")
        halves = [let(bits(cast(half, "uint16"), "float16")) for half in (low, high)]
        store(of_keys, widen(halves[0], isa) * splat(factor), i * PAGE_TOKENS)
        store(of_values, widen(halves[1], isa), i * PAGE_TOKENS)
    return of_keys, of_values
