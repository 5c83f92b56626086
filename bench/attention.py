"""Decode attention alone on the CPU: pages of float16 against pages of int8.

    python bench/attention.py [--tokens N] [--threads N] [--rounds N]

Times one layer's kernel for one sequence, with the heads of Qwen3-0.6B. Layers take turns, so that
pages come from memory as in a model, and so do the two kinds of pages; figures are medians.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.cpuid import cpu_features, cpu_name, default_threads
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.engine.table_rows import Line, table_array
from edgewise_runtime.format.abi import PAGE_TOKENS, STEP_WIDTH, TABLE_HEADER
from edgewise_runtime.format.state import pages_for
from machine import wait_until_idle

KINDS = ("float16", "int8")

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Shape:
    """One sequence's attention: tokens of history, heads, and how many layers take turns."""

    tokens: int
    heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128
    layers: int = 8

    @property
    def pages(self) -> int:
        """Pages of the sequence, the token being decoded among them."""
        return pages_for(self.tokens + 1, PAGE_TOKENS)


@dataclass(frozen=True)
class Measured:
    """Seconds of every launch over one kind of pages, and the bytes of the pages a launch reads."""

    seconds: tuple[float, ...]
    bytes: int

    @property
    def median(self) -> float:
        """Seconds of the median launch."""
        return float(np.median(self.seconds))


def aligned(shape: tuple[int, ...], dtype: str) -> Array:
    """A zeroed array that starts at a multiple of 64 bytes, as kernels require."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    found: Array = raw[start : start + size].view(dtype).reshape(shape)
    return found


def layer(shape: Shape, kind: str, rng: np.random.Generator) -> list[Array]:
    """A layer's buffers, with something in them."""
    pages = aligned((shape.pages, 2, shape.kv_heads, PAGE_TOKENS * shape.head_dim), kind)
    if kind == "float16":
        pages[...] = rng.standard_normal(pages.shape, np.float32)
        return [pages]
    pages[...] = rng.integers(-127, 128, pages.shape, np.int8)
    scales = aligned((shape.pages, shape.kv_heads, PAGE_TOKENS), "uint32")
    scales[...] = np.array([0.02, 0.02], np.float16).view(np.uint32)
    return [pages, scales]


def compiled(shape: Shape, kind: str) -> tuple[Callable[..., None], int]:
    """The kernel for this machine, as a function of arrays, and how many float32 it works in."""
    import tvm

    from edgewise_compiler.kernels.attention import AttentionSpec
    from edgewise_compiler.kernels.cpu.attention.decode import attention_decode, part_elements
    from edgewise_compiler.kernels.cpu.isa import ISAS

    features = cpu_features()
    isa = next(isa for isa in ISAS.values() if features.issuperset(isa.features))
    heads = (shape.heads, shape.kv_heads, shape.head_dim)
    scale = shape.head_dim**-0.5
    spec = AttentionSpec(1, 1, shape.pages * PAGE_TOKENS, *heads, kind, scale)
    kernel = attention_decode(spec, isa.name)
    name = str(kernel.attrs["global_symbol"])
    function = tvm.compile(tvm.IRModule({name: kernel}), target=isa.target())[name]

    def call(*arrays: Array) -> None:
        function(*(tvm.runtime.from_dlpack(array) for array in arrays))

    return call, part_elements(spec)


def measure(shape: Shape, rounds: int, patience: float) -> dict[str, Measured]:
    """Time every layer with each kind of pages in turn, ``rounds`` times.

    Args:
        patience: seconds to wait for an idle machine before each round, at most.
    """
    rng = np.random.default_rng(1)
    kernels = {kind: compiled(shape, kind) for kind in KINDS}
    layers = {kind: [layer(shape, kind, rng) for _ in range(shape.layers)] for kind in KINDS}
    q, out = (aligned((1, shape.heads * shape.head_dim), "float32") for _ in range(2))
    q[...] = rng.standard_normal(q.shape, np.float32)
    line = Line(shape.tokens, 1, rng.permutation(shape.pages).tolist(), limit=0)
    table = aligned((1, TABLE_HEADER + shape.pages), "int32")
    table[...] = table_array([line], table.shape[1])
    step = aligned((STEP_WIDTH,), "int32")
    step[...] = step_array(1, 1, 1, 0)
    part = aligned((kernels[KINDS[0]][1],), "float32")
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(rounds + 1):
        wait_until_idle(patience)
        for kind in KINDS:
            for buffers in layers[kind]:
                begin = perf_counter()
                kernels[kind][0](q, *buffers, table, part, out, step)
                # The first round only warms up.
                if turn:
                    seconds[kind].append(perf_counter() - begin)
    moved = {kind: sum(buffer.nbytes for buffer in layers[kind][0]) for kind in KINDS}
    return {kind: Measured(tuple(seconds[kind]), moved[kind]) for kind in KINDS}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--patience", type=float, default=1.0, help="seconds to wait for idle")
    args = parser.parse_args()
    # Read once, when the first kernel that runs on several threads is launched.
    os.environ["TVM_NUM_THREADS"] = str(args.threads)
    print(f"{cpu_name()}, {args.threads} threads, load {os.getloadavg()[0]:.1f}\n")
    print("| tokens | pages | µs a layer | GB/s | times float16 |\n|---|---|---|---|---|")
    for tokens in args.tokens:
        found = measure(Shape(tokens), args.rounds, args.patience)
        base = found["float16"].median
        for kind, one in found.items():
            rate = one.bytes / one.median / 1e9
            print(
                f"| {tokens:,} | {kind} | {one.median * 1e6:,.0f} | {rate:.1f} "
                f"| {base / one.median:.2f} |"
            )


if __name__ == "__main__":
    main()
