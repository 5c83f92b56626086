"""Linears of prefill in integers: 8-bit activations against weights of 4 to 8 bits, by fours.

The arithmetic of the CPU's ``w4a8`` to ``w8a8``: activations are rounded to int8 in
groups of 32 columns, a group's products are added up exactly in int32 (`dot_int8`, one instruction
where the hardware has it), and groups are joined in order by one float32 fma each. Since a group is
exact, neither tiles nor neighbours can change a bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, count_suffix
from edgewise_compiler.kernels.gpu.matmul.matmul import (
    COLUMNS,
    FEW_ROWS,
    MANY_ROWS,
    SIDE,
    THREADS,
    write_outputs,
)
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.weights import VECTORS, GpuWeights
from edgewise_compiler.kernels.gpu.operations import (
    dot_int8,
    f32,
    fma,
    i32,
    lane,
    larger,
    magnitude,
    nearest,
    u32,
)
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    keep,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_runtime.format.abi import GROUP, ROWS, STEP_SYMBOLS

QUANTIZE_THREADS = 64
WORDS = GROUP // 4  # words of four int8 in a group
STRIDE = WORDS + 1  # rows of a tile lie apart by an odd number: banks do not collide
LARGEST = 127


@cache
def quantize(N: int, K: int) -> Launch:
    """Rounds activations to int8 in groups of 32, for the step[0] live rows.

    Arguments: x float32 [N, K], xq uint32 [N, K/4] (byte b of a word is column 4i+b), xs float32
    [N, K/32], step. A group's scale is its largest magnitude over 127, and not finite where one of
    its numbers is not; a thread takes a group.
    """
    groups = K // GROUP
    arguments = (
        Arg("x", "float32x4", (N, K // 4)),
        Arg("xq", "uint32", (N, K // 4)),
        Arg("xs", "float32", (N, groups)),
        STEP,
    )

    def body(thread: Thread, x: Buffer, xq: Buffer, xs: Buffer, step: Buffer) -> None:
        g = bind(thread.x * QUANTIZE_THREADS + thread.t)
        row = thread.y
        with when(T.And(g < groups, row < T.min(step[ROWS], N))):
            vectors = [bind(x[row, g * VECTORS + i]) for i in range(VECTORS)]
            largest: TirExpr = f32(0.0)
            for vector in vectors:
                for c in range(4):
                    largest = larger(largest, magnitude(lane(vector, c)))
                largest = bind(largest)
            inverse = bind(T.Select(largest > f32(0.0), f32(LARGEST) / largest, f32(0.0)))
            for i, vector in enumerate(vectors):
                word: TirExpr = u32(0)
                for c in range(4):
                    rounded = i32(nearest(lane(vector, c) * inverse))
                    byte = keep(u32(rounded) & u32(255))
                    word = word | (byte << u32(8 * c))
                store(xq, word, row, g * WORDS + i)
            store(xs, largest * f32(1 / LARGEST), row, g)

    return kernel(
        f"quantize_{N}x{K}",
        arguments,
        body,
        threads=QUANTIZE_THREADS,
        grid=(-(-groups // QUANTIZE_THREADS), "n"),
        bounds={"n": N},
    )


@cache
def matmul_int8(spec: PartSpec, *, few: bool) -> Launch:
    """``out[i, first + row]`` of quantized ``x[i] . W[row]`` for the live rows i.

    Arguments: xq uint32 [rows, K/4] and xs float32 [rows, K/32] of `quantize`, weight and scale of
    an integer scheme, bias float32 [NP] with ``bias``, out float32 [N, width], step. It asks for
    `dot_int8`, which not every device has.

    Args:
        spec, few: as for `matmul`.
    """
    N, NP, K = spec.live, spec.outputs, spec.inputs
    weights = GpuWeights(spec.scheme, NP, K)
    rows = FEW_ROWS if few else MANY_ROWS
    arguments = (
        Arg("xq", "uint32", (spec.rows, K // 4)),
        Arg("xs", "float32", (spec.rows, K // GROUP)),
        *weights.octet_arguments(),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        Arg("out", "float32", (N, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][spec.count], N))
        with when(thread.y * rows < live):
            ready = weights.begun("uint32", team=thread)
            _Kernel(thread, named, spec, ready, rows, live).run()

    name = (
        f"matmul_int8_{spec.scheme}_{spec.epilogue}_{N}_{NP}x{K}_t{rows}_o{spec.width}_{spec.first}"
        f"{'_b' if spec.bias else ''}{count_suffix(spec.count)}"
    )
    symbol = STEP_SYMBOLS[spec.count]
    return kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=(-(-NP // COLUMNS), ("ceildiv", symbol, rows)),
        bounds={symbol: N},
    )


@dataclass(frozen=True)
class _Kernel:
    """The parts of one kernel's body."""

    thread: Thread
    named: dict[str, Buffer]
    spec: PartSpec
    weights: GpuWeights
    rows: int
    live: TirExpr

    def run(self) -> None:
        thread, bias = self.thread, self.spec.bias
        rows, columns = self.rows // SIDE, COLUMNS // SIDE
        xs, ws = shared((self.rows * STRIDE,), "uint32"), shared((COLUMNS * STRIDE,), "uint32")
        x_scales, w_scales = shared((self.rows,)), shared((COLUMNS,))
        shifts = shared((COLUMNS,)) if self.weights.shifted else None
        sums, dot = local((rows * columns,)), local((rows * columns,), "int32")
        totals = local((rows,), "int32") if self.weights.shifted else None
        for i in range(rows * columns):
            store(sums, 0.0, i)
        across, down = bind(thread.t % SIDE), bind(thread.t // SIDE)
        with T.serial(0, self.weights.groups) as g:
            self._load_x(xs, x_scales, g)
            self._load_weights(ws, w_scales, shifts, g)
            barrier()
            for i in range(rows * columns):
                store(dot, 0, i)
            if totals is not None:
                for i in range(rows):
                    store(totals, 0, i)
            with T.serial(0, WORDS) as v:
                mine, theirs = bind(down * STRIDE + v), bind(across * STRIDE + v)
                xv = [bind(xs[mine + SIDE * STRIDE * i]) for i in range(rows)]
                wv = [bind(ws[theirs + SIDE * STRIDE * j]) for j in range(columns)]
                for i in range(rows):
                    if totals is not None:
                        store(totals, totals[i] + dot_int8(xv[i], u32(0x01010101)), i)
                    for j in range(columns):
                        product = dot_int8(xv[i], wv[j])
                        store(dot, dot[i * columns + j] + product, i * columns + j)
            for i in range(rows):
                for j in range(columns):
                    at = i * columns + j
                    scale = x_scales[down + SIDE * i] * w_scales[across + SIDE * j]
                    store(sums, fma(f32(dot[at]), scale, sums[at]), at)
                    if totals is not None and shifts is not None:
                        total = f32(totals[i]) * x_scales[down + SIDE * i]
                        store(sums, fma(total, shifts[across + SIDE * j], sums[at]), at)
            barrier()
        for i in range(rows):
            row = bind(thread.y * self.rows + down + SIDE * i)
            with when(row < self.live):

                def value(j: int, column: TirExpr, at: int = i * columns) -> TirExpr:
                    return bind(sums[at + j] + self.named["bias"][column]) if bias else sums[at + j]

                out = self.named["out"]
                write_outputs(thread, out, self.spec, value, row, columns=COLUMNS)

    def _load_x(self, xs: Buffer, x_scales: Buffer, g: TirExpr) -> None:
        t, last = self.thread.t, self.live - 1
        for start in range(0, self.rows * WORDS, THREADS):
            index = bind(t + start)
            row, v = bind(index // WORDS), bind(index % WORDS)
            source = bind(T.min(self.thread.y * self.rows + row, last))
            with when(index < self.rows * WORDS):
                store(xs, self.named["xq"][source, g * WORDS + v], row * STRIDE + v)
        with when(t < self.rows):
            source = bind(T.min(self.thread.y * self.rows + t, last))
            store(x_scales, self.named["xs"][source, g], t)

    def _load_weights(
        self, ws: Buffer, w_scales: Buffer, shifts: Buffer | None, g: TirExpr
    ) -> None:
        """Each thread unpacks 8 columns of one matrix row to two words of int8."""
        weights, octets = self.weights, GROUP // 8
        row, part = bind(self.thread.t // octets), bind(self.thread.t % octets)
        source = bind(T.min(self.thread.x * COLUMNS + row, weights.rows - 1))
        packed = [self.named["weight"], self.named["scale"]]
        words = weights.int8_words(weights.load(packed, source, bind(g * octets + part)))
        for i, word in enumerate(words):
            store(ws, word, row * STRIDE + part * 2 + i)
        with when(part == 0):
            scale, *shift = weights.numbers(packed, source, g)
            store(w_scales, scale, row)
            if shifts is not None:
                store(shifts, shift[0], row)
