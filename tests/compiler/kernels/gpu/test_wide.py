"""Numbers of more than 32 bits behave like integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import u32
from edgewise_compiler.kernels.gpu.sampling.wide import (
    Wide,
    add,
    full_product,
    halves,
    less,
    multiply,
    scale,
    subtract,
    wide_of,
)
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, kernel, store
from tests.gpu import run

COUNT = 256
M24 = (1 << 24) - 1

# What each operation makes of two numbers a and b, as the words of its result, and in integers.
Operation = Callable[[Wide, Wide], tuple[Expr, Expr]]
OPERATIONS: dict[str, Operation] = {
    "add": lambda a, b: words(add(a, b)),
    "subtract": lambda a, b: words(subtract(add(a, b), b)),
    "less": lambda a, b: (T.Select(less(a, b), u32(1), u32(0)), u32(0)),
    "multiply": lambda a, b: words(multiply(a.lo, b.lo)),
    "scale": lambda a, b: words(scale(a, b.lo << u32(8))[0]),
    "cut off": lambda a, b: (T.Select(scale(a, b.lo << u32(8))[1], u32(1), u32(0)), u32(0)),
    "halves": lambda a, b: words(halves(a.lo, b.lo)),
    "product": lambda a, b: full_product(a.lo << u32(8), b.lo << u32(7)),
    "wide_of": lambda a, b: words(wide_of(a.lo << u32(8))),
}
INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a,
    "less": lambda a, b: int(a < b) << 24,
    "multiply": lambda a, b: (a & M24) * (b & M24),
    "scale": lambda a, b: a * ((b & M24) << 8) >> 32,
    "cut off": lambda a, b: int(a * ((b & M24) << 8) % 2**32 > 0) << 24,
    "halves": lambda a, b: (a & M24) * 2**16 + (b & M24),
    "product": lambda a, b: ((a & M24) << 8) * ((b & M24) << 7),
    "wide_of": lambda a, b: (a & M24) << 8,
}


def words(number: Wide) -> tuple[Expr, Expr]:
    return number.hi, number.lo


@cache
def launch_of(name: str) -> Launch:
    def body(thread: Thread, x: Buffer, y: Buffer) -> None:
        t = thread.t
        a, b = Wide(x[t, 0], x[t, 1]), Wide(x[t, 2], x[t, 3])
        for i, word in enumerate(OPERATIONS[name](a, b)):
            store(y, word, t, i)

    arguments = [Arg("x", "uint32", (COUNT, 4)), Arg("y", "uint32", (COUNT, 2))]
    title = f"wide_{name.replace(' ', '_')}"
    return kernel(title, arguments, body, threads=COUNT, grid=(1, 1), bounds={})


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_those_of_integers(name: str) -> None:
    rng = np.random.default_rng(1)
    special = [0, 1, M24, M24 + 1, 2**30, 24 * 2**30 + 1, 2**48 - 1, 2**47]
    numbers = [int(n) for n in rng.integers(0, 2**48, 2 * COUNT)]
    numbers[: 2 * len(special) ** 2] = [n for a in special for b in special for n in (a, b)]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    x = np.array([[a >> 24, a & M24, b >> 24, b & M24] for a, b in pairs], np.uint32)
    _, y = run(launch_of(name), [x, np.zeros((COUNT, 2), np.uint32)])
    base = 2**32 if name == "product" else 2**24
    found = [int(hi) * base + int(lo) for hi, lo in y]
    assert found == [INTEGERS[name](a, b) for a, b in pairs]
