"""Rotary position embedding on the GPU, and the keys' and values' way into the pages."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import RopeSpec, check_heads
from edgewise_compiler.kernels.function import (
    STEP,
    Arg,
    positions_arg,
    row_seq_arg,
    symbol,
    table_arg,
)
from edgewise_compiler.kernels.gpu.attention.common import (
    SEEN,
    code_word,
    pool_pages,
    scales_for,
)
from edgewise_compiler.kernels.gpu.attention.rotary import (
    elements,
    inverse_rms,
    largest_of,
    rotated,
    squares,
)
from edgewise_compiler.kernels.gpu.operations import larger, number
from edgewise_compiler.kernels.gpu.reduce import Combine, combine_group
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    bind,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_runtime.format.abi import (
    KV_LEN,
    MAX_PAGES,
    PAGE_TOKENS,
    Q_START,
    ROWS,
    STOP,
    TABLE_HEADER,
)

_THREADS = 128


@cache
def rope_append(spec: RopeSpec, *, subgroups: bool) -> Launch:
    """Rotates queries and keys (the halves of a head form the pairs) and appends keys and values.

    Arguments: qkv float32 [N, (HQ+2*HK)*D], whose queries are replaced by the rotated ones; rope
    float32 [C, 2, D/2], the cosines then the sines of a position, if anything turns, and with
    ``apart`` those of queries behind them; positions
    int32 [N, 1]; row_seq int32 [N]; table int32 [B, 8+MP]; with ``norm_eps`` qk_norm float32
    [2, D], the weights of an RMSNorm of every query head, then of every key head, before the
    rotation (Qwen3); kv ``kv_dtype`` [pages, 2, HK, 16*D], written; step int32 [8], whose field 0
    is the number of rows. Rows of a stopped sequence leave the pages alone. Grid: a workgroup for
    some heads of one row.

    With int8 pages kv_scale uint32 [pages, HK, 16], written, follows kv; positions, which would be
    a ninth buffer, is left out, for the table says them too. The scale of a key or value is
    max|x|/127 over the head, rounded to float16 before codes are computed with it. One thread
    writes the scales of a key and its value, and whole words of codes: no row touches another's.

    Args:
        spec: N rows, B sequences, MP pages of a sequence and C positions at most; HQ and HK heads
            of D. The device decides how numbers are rounded to pages of float16, the kernel how to
            those of float16x2: to the nearest, see `half_words`. What float16 cannot hold is NaN.
        subgroups: for sums and maxima over a head; a kernel without any is the same for both.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
    """
    kv_dtype, eps = spec.kv_dtype, spec.norm_eps
    N, B, C, MP = spec.rows, spec.batch, spec.context, spec.pages
    HQ, HK, D = spec.heads, spec.kv_heads, spec.head_dim
    check_heads(HQ, HK, D, kv_dtype)
    coded = kv_dtype == "int8"
    subgroups = subgroups and (eps is not None or coded)
    half = D // 8  # vectors of half a head, one a thread
    lanes = 1 << (half - 1).bit_length()
    # The threads of an int8 key have its value as well.
    heads, side_by_side = HQ + HK * (1 if coded else 2), _THREADS // lanes
    seen = SEEN[kv_dtype]
    arguments = [
        Arg("qkv", "float32x4", (N, HQ + 2 * HK, 2, half)),
        *([Arg("rope", "float32x4", (C, spec.rope_rows, half))] if spec.turns else []),
        *([] if coded else [positions_arg(spec)]),
        row_seq_arg(spec),
        table_arg(spec, pool_pages(spec)),
        *([Arg("qk_norm", "float32x4", (2, 2, half))] if eps is not None else []),
        Arg("kv", seen.element, (MAX_PAGES, 2, HK, PAGE_TOKENS * D // seen.packed)),
        *([Arg("kv_scale", "uint32", (MAX_PAGES, HK, PAGE_TOKENS))] if coded else []),
        STEP,
    ]

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        qkv, row_seq, table, kv, step = (
            named[name] for name in ("qkv", "row_seq", "table", "kv", "step")
        )
        row = thread.x
        head = bind(thread.y * side_by_side + T.floordiv(thread.t, lanes))
        place = bind(T.floormod(thread.t, lanes))
        # Threads without a head or without a vector read one of the last head, which nobody writes
        # to in place, and write nothing.
        busy = bind((head < heads) & (place < half))
        last = heads - 1
        source = bind(T.min(head, last) if half == lanes else T.Select(busy, head, last))
        i = bind(T.min(place, half - 1))
        scratch = shared((_THREADS,)) if eps is not None or coded else None

        def combined(value: Expr, combine: Combine) -> Expr:
            """Of all threads of a head; zero stands for those that have no part of it."""
            value = T.Select(busy, value, number(0.0))
            return combine_group(thread, value, lanes, combine, scratch)

        def normalized(pair: list[Expr], eps: float) -> list[Expr]:
            def weights(j: int) -> Expr:
                return named["qk_norm"][which, j, i]

            total = combined(squares(pair), lambda a, b: a + b)
            inverse = inverse_rms(total, D, eps)
            which = bind(T.Select(source < HQ, 0, 1))
            return [bind(x * inverse * weights(j)) for j, x in enumerate(pair)]

        def position_of() -> Expr:
            if not coded:
                return bind(named["positions"][row, 0])
            sequence = bind(row_seq[row])
            return bind(T.max(0, table[sequence, KV_LEN] + row - table[sequence, Q_START]))

        def page_of(position: Expr) -> Expr:
            return bind(table[row_seq[row], TABLE_HEADER + T.floordiv(position, PAGE_TOKENS)])

        def append(
            which: int, head: Expr, pair: list[Expr], position: Expr, stride: int, first: Expr
        ) -> None:
            """Writes element e of a head to ``first + e*stride`` of a row's page."""
            with when(table[row_seq[row], STOP] == 0):
                page = page_of(position)
                for j, vector in enumerate(pair):
                    for k, element in enumerate(elements(kv_dtype, vector)):
                        e = bind((j * half + i) * (4 // seen.packed) + k)
                        store(kv, element, page, which, head, first + e * stride)

        def append_codes(keys: list[Expr], position: Expr) -> None:
            h = bind(T.max(source - HQ, 0))
            numbers = [local((2,), "float32x4") for _ in range(2)]
            for j in range(2):
                store(numbers[0], keys[j], j)
                store(numbers[1], 0.0, j)
                with when(source >= HQ):
                    store(numbers[1], qkv[row, HQ + HK + h, j, i], j)
            largest = [
                combined(largest_of([pair[j] for j in range(2)]), larger) for pair in numbers
            ]
            word, inverses = scales_for(largest)
            with when(busy & (head >= HQ) & (table[row_seq[row], STOP] == 0)):
                page, slot = page_of(position), bind(T.floormod(position, PAGE_TOKENS))
                for j in range(2):
                    vector = bind(j * half + i)
                    key, value = (
                        code_word(pair[j], inverse)
                        for pair, inverse in zip(numbers, inverses, strict=True)
                    )
                    store(kv, key, page, 0, h, vector * PAGE_TOKENS + slot)
                    store(kv, value, page, 1, h, slot * (D // 4) + vector)
                with when(place == 0):
                    store(named["kv_scale"], word, page, h, slot)

        def one_row() -> None:
            loaded = [bind(qkv[row, source, j, i]) for j in range(2)]
            first, second = loaded if eps is None else normalized(loaded, eps)
            position = position_of()
            slot = bind(T.floormod(position, PAGE_TOKENS))
            turned = [first, second]
            if spec.turns:
                own = bind(T.Select(source < HQ, 2, 0)) if spec.apart else 0
                cos, sin = (bind(named["rope"][position, own + j, i]) for j in range(2))
                turned = rotated(first, second, cos, sin)
            with when(busy & (head < HQ)):
                for j, vector in enumerate(turned):
                    store(qkv, vector, row, head, j, i)
            if coded:
                append_codes(turned, position)
                return
            with when(busy & (head >= HQ) & (head < HQ + HK)):
                append(0, head - HQ, turned, position, PAGE_TOKENS, slot)
            with when(busy & (head >= HQ + HK)):
                append(1, head - (HQ + HK), loaded, position, 1, slot * (D // seen.packed))

        with when(row < step[ROWS]):
            one_row()

    flags = (
        *(() if eps is None else (f"norm{eps}",)),
        *spec.rope_names,
        *(("subgroups",) if subgroups else ()),
    )
    return kernel(
        symbol("rope_append", N, B, MP, HQ, HK, D, C, kv_dtype, *flags),
        arguments,
        body,
        threads=_THREADS,
        grid=("n", -(-heads // side_by_side)),
        bounds={"n": N},
        subgroups=subgroups,
    )
