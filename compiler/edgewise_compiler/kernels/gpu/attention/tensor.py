"""Causal attention of chunks of prompts by instructions for matrices (NVIDIA's tensor cores).

A workgroup takes 64 rows, each a query head of a token: all heads that share a KV head, of as many
tokens as there is room for. A subgroup has 16 of them and walks over the segments of 64 positions
as `prefill` does, by the same formulas, with the outputs in registers (T. Dao, "FlashAttention-2",
arXiv 2307.08691). Queries and weights p are rounded to float16; q.k and p.v are added up by
:func:`~..operations.mma`, all else is float32.

An instruction takes the numbers of 16 tokens for 16 rows, and what a product of zero leaves of
other numbers is the device's own matter: of tensor cores it is known that they cut all products of
a sum where the largest one ends (M. Fasi et al., "Numerical behavior of NVIDIA tensor cores",
2021). So no row takes a result to which a token contributed that it does not see. Of a block of 16
positions that it sees as a whole it takes what all rows compute together. Of one that it sees in
part it takes what is computed for its token alone, in which the values of other tokens are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, partial, reduce

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import (
    KNOWN,
    AttentionSpec,
    PagedHeads,
    check_attention,
    first_seen,
    log2_cap,
    score_scale,
    sinks_arg,
    trait_names,
)
from edgewise_compiler.kernels.function import STEP, Arg, symbol, table_arg
from edgewise_compiler.kernels.gpu.attention.common import (
    LOWEST,
    capped,
    find_tile,
    page_of,
    pages_of,
    pool_pages,
    spoiled,
    within,
)
from edgewise_compiler.kernels.gpu.attention.pairs import (
    HIGH,
    KEY_STRIDE,
    LOW,
    stage_pairs,
    value_stride,
)
from edgewise_compiler.kernels.gpu.matmul.matmul import HALF_SCALE
from edgewise_compiler.kernels.gpu.matmul.tensor import HEIGHT, SUBGROUP, WIDTH
from edgewise_compiler.kernels.gpu.operations import (
    exp2,
    fma,
    lane,
    mma,
    number,
    pack_halves,
    splat,
    u32,
    vector_of,
)
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    kernel,
    local,
    shared,
    shuffle_xor,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import LOG2E, SEGMENT, SEGMENT_PAGES
from edgewise_runtime.format.abi import KV_LEN, MAX_PAGES, PAGE_TOKENS, Q_LEN, Q_START

ROWS = 64  # of a workgroup
_THREADS = ROWS // HEIGHT * SUBGROUP
_STEP, _WIDEST = 32, 128  # a head's width: what one load of a row has for a subgroup; registers end


def attention_fits(spec: AttentionSpec) -> bool:
    """Whether the kernel has all that attention asks for. What it has not, and what attention comes
    to have, is left to `attention_prefill`: other pages than those of float16, wide heads, and so
    many heads of a KV head that they are more than a tile."""
    known = {*(field.name for field in fields(PagedHeads)), "scale", *KNOWN}
    others = (field for field in fields(spec) if field.name not in known)
    return (
        spec.kv_dtype == "float16"
        and spec.head_dim % _STEP == 0
        and spec.head_dim <= _WIDEST
        and spec.heads // spec.kv_heads <= ROWS
        and all(getattr(spec, field.name) == field.default for field in others)
    )


@cache
def attention_tensor(spec: AttentionSpec) -> Launch:
    """Attention of every row of a ragged batch over the tokens of its sequence up to itself.

    Arguments: those of `attention_prefill`, in its order. Grid: tiles of a sequence's tokens in x,
    KV heads in y.

    Queries are rounded to a `HALF_SCALE`-th in float16: each product q*k is off by up to 2^-11 of
    itself, and p by up to 2^-11 of itself or 2^-25. Queries beyond 65504 times that give NaN.

    Args:
        spec: N rows, B sequences, MP pages of a sequence at most; HQ and HK heads of D, such that
            :func:`attention_fits`.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
    """
    check_attention(spec, KNOWN)
    N, HQ, HK, D = spec.rows, spec.heads, spec.kv_heads, spec.head_dim
    tokens = ROWS // (HQ // HK)
    arguments = (
        Arg("qkv", "float32x4", (N, HQ + 2 * HK, D // 4)),
        Arg("kv", "uint32x2", (MAX_PAGES, 2, HK, PAGE_TOKENS * D // 4)),
        table_arg(spec, pool_pages(spec)),
        *sinks_arg(spec),
        Arg("out", "float32x4", (N, HQ, D // 4)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        found = find_tile(thread, named["table"], named["step"], spec.batch, tokens)
        sequence = bind(found[0])
        with when(sequence >= 0):
            _Tile(thread, named, spec, sequence, bind(found[1] * tokens)).run()

    sizes = (N, spec.batch, spec.pages, HQ, HK, D, spec.context)
    traits = (spec.kv_dtype, spec.scale, *trait_names(spec))
    return kernel(
        symbol("attention_tensor", *sizes, *traits),
        arguments,
        body,
        threads=_THREADS,
        grid=(("add", ("ceildiv", "n", tokens), "b"), HK),
        bounds={"n": N, "b": spec.batch},
        subgroups=True,
    )


@dataclass(frozen=True)
class _Seen:
    """What a row sees of a segment: keys before ``keys``, and with a window none before ``low``."""

    keys: Expr
    low: Expr | None

    def token(self, at: Expr) -> Expr:
        """Whether it sees a token."""
        return within(at, self.keys, self.low)

    def some(self, first: int, count: int) -> Expr:
        """Whether it sees any of ``count`` tokens."""
        above = self.keys > first
        return above if self.low is None else T.And(above, self.low < first + count)

    def all(self, first: int, count: int) -> Expr:
        """Whether it sees each of them."""
        above = self.keys >= first + count
        return above if self.low is None else T.And(above, self.low <= first)


class _Tile:
    """A workgroup's tile: a sequence's tokens from its ``start``-th row on, and their heads.

    A thread has a part of two rows, `WIDTH` apart. In each block of 16 tokens it has four
    neighbours of their scores, the ``pair``-th; of 32 columns eight of their outputs.
    """

    def __init__(
        self, thread: Thread, named: dict[str, Buffer], spec: AttentionSpec, s: Expr, start: Expr
    ) -> None:
        self.thread, self.named, self.spec, self.s = thread, named, spec, s
        self.h, D, group = thread.y, spec.head_dim, spec.heads // spec.kv_heads
        table = named["table"]
        self.live = bind(T.min(table[s, Q_LEN] - start, ROWS // group))
        self.first_row = bind(table[s, Q_START] + start)
        self.first_position = bind(table[s, KV_LEN] + start)
        subgroup, place = bind(thread.t // SUBGROUP), bind(thread.t % SUBGROUP)
        self.column, self.pair = bind(place // 4), bind(place % 4)
        rows = [bind(subgroup * HEIGHT + self.column + i) for i in (0, WIDTH)]
        self.tokens = [bind(row // group) for row in rows]
        # Rows that the tile does not have repeat those of its last token.
        self.nth = [bind(T.min(token, self.live - 1)) for token in self.tokens]
        self.heads = [bind(self.h * group + row % group) for row in rows]
        self.first_token = bind(subgroup * HEIGHT // group)
        last = T.min((subgroup * HEIGHT + (HEIGHT - 1)) // group, self.live - 1)
        self.own_tokens = bind(T.max(0, last + 1 - self.first_token))
        self.stride = value_stride(D)
        self.ks = shared((D // 2 * KEY_STRIDE,), "uint32x4")
        self.vs = shared((SEGMENT // 2 * self.stride,), "uint32x4")
        self.queries = local((D // HEIGHT,), "uint32x4")
        self.scores = local((SEGMENT // WIDTH,), "float32x4")
        self.weights = local((SEGMENT_PAGES,), "uint32x4")
        self.outputs = local((D // WIDTH,), "float32x4")
        self.best, self.total = local((2,)), local((2,))  # M, and the thread's share of L

    def run(self) -> None:
        """Attention of the tile's rows."""
        spec, named = self.spec, self.named
        qkv, both = named["qkv"], list(zip(self.nth, self.heads, strict=True))
        for k in range(spec.head_dim // HEIGHT):
            read = (qkv[self.first_row + nth, head, k * 4 + self.pair] for nth, head in both)
            rows = [bind(four * number(1 / HALF_SCALE, "float32x4")) for four in read]
            words = (pack_halves(lane(v, c), lane(v, c + 1)) for c in (0, 2) for v in rows)
            store(self.queries, vector_of(*words), k)
        for i in (0, 1):
            if spec.sinks:
                # Of a row's sum four threads have a share: the sink is in that of the first.
                store(self.best, named["sinks"][self.heads[i]] * number(LOG2E), i)
                store(self.total, T.Select(self.pair == 0, number(1.0), number(0.0)), i)
            else:
                store(self.best, LOWEST, i)
                store(self.total, 0.0, i)
        for n in range(spec.head_dim // WIDTH):
            store(self.outputs, 0.0, n)
        segments = T.floordiv(self.first_position + self.live - 1, SEGMENT) + 1
        begin: Expr = T.int32(0)
        if spec.window is not None:
            begin = bind(T.floordiv(first_seen(spec, self.first_position + 1), SEGMENT))
        with T.serial(0, segments - begin) as i:
            self._segment(bind(begin + i))
        self._write()

    def _segment(self, segment: Expr) -> None:
        named, base = self.named, bind(segment * SEGMENT)
        end = T.min(self.first_position + self.live - base, SEGMENT)
        page = partial(
            page_of, named["table"], self.s, segment, pages=bind(T.max(1, pages_of(end)))
        )
        stage_pairs(self.thread, named["kv"], page, self.h, self.spec.head_dim, self.ks, self.vs)
        barrier()
        for n in range(SEGMENT // WIDTH):
            store(self.scores, 0.0, n)
        for k in range(self.spec.head_dim // HEIGHT):
            a = bind(self.queries[k])
            for half in (0, 1):
                at = [bind((self.pair * 2 + (k * 8 + j)) * KEY_STRIDE + half * 8) for j in (0, 1)]
                low, up = (bind(self.ks[i + self.column]) for i in at)
                for c in range(4):
                    b, n = bind(vector_of(lane(low, c), lane(up, c))), half * 4 + c
                    store(self.scores, mma(a, b, self.scores[n]), n)
        rows = [self._seen(token, base) for token in self.nth]
        self._softmax(rows)
        first, last = self._seen(T.int32(0), base), self._seen(self.live - 1, base)
        whole = bind(_Seen(first.keys, last.low).all(0, SEGMENT))  # to each token of the tile
        either = _Seen(last.keys, first.low)
        with when(whole):
            for block in range(SEGMENT_PAGES):
                self._mix(block)
        with when(T.Not(whole)):
            for block in range(SEGMENT_PAGES):
                tokens = block * PAGE_TOKENS, PAGE_TOKENS
                with when(either.all(*tokens)):
                    self._mix(block, [bind(row.all(*tokens)) for row in rows])
                with T.serial(0, self.own_tokens) as i:
                    token = bind(self.first_token + i)
                    seen = self._seen(token, base)
                    with when(T.And(seen.some(*tokens), T.Not(seen.all(*tokens)))):
                        self._mix(block, [bind(nth == token) for nth in self.nth], seen)
        barrier()

    def _seen(self, token: Expr, base: Expr) -> _Seen:
        """What a token of the tile sees of the segment that begins at ``base``."""
        keys = bind(self.first_position + token + 1 - base)
        window = self.spec.window
        return _Seen(keys, None if window is None else bind(keys - window))

    def _softmax(self, rows: list[_Seen]) -> None:
        """Makes weights of the scores, and scales what was added up before them."""

        lanes = [(r, e) for r in (0, 1) for e in (0, 1)]  # of a result: of each row two tokens

        def held(x: Expr, n: int, otherwise: float) -> Expr:
            """The ``n``-th result, where its rows see its tokens."""
            at = [self.pair * 4 + (n // 2 * PAGE_TOKENS + n % 2 + 2 * e) for _, e in lanes]
            seen = (rows[r].token(token) for (r, _), token in zip(lanes, at, strict=True))
            x = bind(x)
            parts = (T.Select(s, lane(x, i), number(otherwise)) for i, s in enumerate(seen))
            return bind(vector_of(*parts))

        scale = number(score_scale(self.spec) * HALF_SCALE, "float32x4")
        for n in range(SEGMENT // WIDTH):
            x = capped(self.scores[n] * scale, log2_cap(self.spec))
            store(self.scores, held(x, n, LOWEST), n)
        best, factors = [], []
        for r in (0, 1):
            row = (lane(self.scores[n], 2 * r + e) for n in range(SEGMENT // WIDTH) for e in (0, 1))
            most = bind(reduce(T.max, row))
            for mask in (1, 2):
                most = bind(T.max(most, shuffle_xor(most, mask)))
            best.append(bind(T.max(self.best[r], most)))
            less = exp2(self.best[r] - best[r])
            factors.append(bind(T.Select(rows[r].some(0, SEGMENT), less, number(1.0))))
            store(self.best, best[r], r)
        bests, scaled = (bind(vector_of(*(x[r] for r, _ in lanes))) for x in (best, factors))
        sums: list[Expr] = [number(0.0), number(0.0)]
        for block in range(SEGMENT_PAGES):
            both = (2 * block, 2 * block + 1)
            p = [held(exp2(self.scores[n] - bests), n, 0.0) for n in both]
            words = (pack_halves(*(lane(x, 2 * r + e) for x in p)) for e in (0, 1) for r in (0, 1))
            store(self.weights, vector_of(*words), block)
            for r in (0, 1):
                four = [(i, 2 * r + e) for i in (0, 1) for e in (0, 1)]
                total = reduce(lambda a, b: a + b, (lane(p[i], at) for i, at in four), sums[r])
                scores = bind(vector_of(*(lane(self.scores[both[i]], at) for i, at in four)))
                sums[r] = spoiled(total, scores)
        for r in (0, 1):
            store(self.total, fma(self.total[r], factors[r], sums[r]), r)
        for n in range(self.spec.head_dim // WIDTH):
            store(self.outputs, self.outputs[n] * scaled, n)

    def _mix(self, block: int, rows: list[Expr] | None = None, seen: _Seen | None = None) -> None:
        """Adds a block's weighted values to outputs.

        Args:
            rows: of the thread's two rows those that get them; None for both.
            seen: tokens of which there are values; None for all.
        """
        first = bind((self.pair * 2 + block * (PAGE_TOKENS // 2)) * self.stride + self.column)
        masks = []
        if seen is not None:
            for i in (0, 1):
                both = [
                    seen.token(self.pair * 4 + (block * PAGE_TOKENS + 2 * i + j)) for j in (0, 1)
                ]
                parts = zip(both, (LOW, HIGH), strict=True)
                low, high = (T.Select(there, u32(mask), u32(0)) for there, mask in parts)
                masks.append(bind(splat(low | high)))
        a = bind(self.weights[block])
        for m in range(self.spec.head_dim // _STEP):
            low, up = (bind(self.vs[first + (i * self.stride + m * 8)]) for i in (0, 1))
            if masks:
                low, up = bind(low & masks[0]), bind(up & masks[1])
            for c in range(4):
                b, n = bind(vector_of(lane(low, c), lane(up, c))), m * 4 + c
                new, old = bind(mma(a, b, self.outputs[n])), self.outputs[n]
                if rows is not None:
                    lanes = ((rows[i // 2], lane(new, i), lane(old, i)) for i in range(4))
                    new = vector_of(*(T.Select(*each) for each in lanes))
                store(self.outputs, new, n)

    def _write(self) -> None:
        totals = []
        for r in (0, 1):
            total = bind(self.total[r])
            for mask in (1, 2):
                total = bind(total + shuffle_xor(total, mask))
            totals.append(bind(splat(total)))
        for r in (0, 1):
            row = bind(self.first_row + self.nth[r])
            with when(self.tokens[r] < self.live):
                for m in range(self.spec.head_dim // _STEP):
                    for e in (0, 1):
                        four = (lane(self.outputs[m * 4 + c], 2 * r + e) for c in range(4))
                        at = self.pair * 2 + (m * 8 + e)
                        value = bind(vector_of(*four)) / totals[r]
                        store(self.named["out"], value, row, self.heads[r], at)
