"""Compiles the shaders of the tiny WebGPU program in `tests.runtime.devices.tiny_webgpu`.

Run as a process of its own: python tiny_shaders.py JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# tvm_ffi imports torch where it is installed, which takes seconds and helps nothing here.
blocked: Any = None
sys.modules["torch"] = blocked

from tvm.tirx import Buffer  # noqa: E402

from edgewise_compiler.kernels.function import STEP, Arg, table_arg  # noqa: E402
from edgewise_compiler.kernels.gpu.operations import cast, number  # noqa: E402
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, kernel, store, when  # noqa: E402
from edgewise_compiler.targets.webgpu.codegen import shader  # noqa: E402

BOUNDS = {"n": 4, "b": 2, "r": 2, "t": 64}
X = Arg("x", "float32", (4, 8))
TABLE = table_arg(SimpleNamespace(rows=4, batch=2, pages=4))


def scale() -> Launch:
    """x *= w for n rows, a workgroup each; row i leaves i + 1 in marks."""

    def body(thread: Thread, x: Buffer, w: Buffer, marks: Buffer, step: Buffer) -> None:
        with when((thread.x < step[0]) & (thread.t < 8)):
            store(x, x[thread.x, thread.t] * w[thread.t], thread.x, thread.t)
            with when(thread.t == 0):
                store(marks, cast(thread.x + 1, "float32"), thread.x)

    arguments = [X, Arg("w", "float32", (8,)), Arg("marks", "float32", (4,)), STEP]
    return kernel("scale", arguments, body, threads=8, grid=("n", 1), bounds=BOUNDS)


def stamp() -> Launch:
    """Adds marks[0..3] to slots 0..3 of the first page of b sequences, a workgroup each."""

    def body(thread: Thread, marks: Buffer, kv: Buffer, table: Buffer) -> None:
        page = table[thread.x, 8]
        with when(thread.t < 4):
            value = kv[page, 0, 0, thread.t] + marks[thread.t]
            store(kv, value, page, 0, 0, thread.t)

    arguments = [
        Arg("marks", "float32", (4,)),
        Arg("kv", "float32", (65536, 2, 1, 32)),
        TABLE,
    ]
    return kernel("stamp", arguments, body, threads=4, grid=("b", 1), bounds=BOUNDS)


def advance() -> Launch:
    """x[0, 0] += 1 and one token more per sequence; once the first is at its limit, no more."""

    def body(thread: Thread, x: Buffer, table: Buffer, step: Buffer) -> None:
        with when((step[1] > 0) & (thread.t == 0)):
            store(x, x[0, 0] + number(1.0), 0, 0)
            for s in range(2):
                store(table, table[s, 0] + 1, s, 0)
            with when(table[0, 0] >= table[0, 4]):
                store(table, 2, 0, 3)
                store(step, 0, 1)

    return kernel("advance", [X, TABLE, STEP], body, threads=1, grid=(1, 1), bounds=BOUNDS)


def visit() -> Launch:
    """seen[x, y] += 1 for every workgroup there is: n * r in x, one for 16 of t in y."""

    def body(thread: Thread, seen: Buffer, step: Buffer) -> None:
        with when(thread.t < step[1]):
            store(seen, seen[thread.x, thread.y] + number(1.0), thread.x, thread.y)

    grid = (("mul", "n", "r"), ("ceildiv", "t", 16))
    arguments = [Arg("seen", "float32", (8, 4)), STEP]
    return kernel("visit", arguments, body, threads=1, grid=grid, bounds=BOUNDS)


LAUNCHES = (scale, stamp, advance, visit)

if __name__ == "__main__":
    launches = [make() for make in LAUNCHES]
    made = {launch.name: shader(launch.function) for launch in launches}
    texts = {name: {"source": s.source, "entry": s.entry} for name, s in made.items()}
    Path(sys.argv[1]).write_text(json.dumps(texts))
