"""Compiles the kernels of the tiny program in `tests.runtime.sample`. Run as a process of its own:

python tiny_kernels.py LIBRARY
"""

from __future__ import annotations

import sys
from typing import Any

# tvm_ffi imports torch where it is installed, which takes seconds and helps nothing here.
blocked: Any = None
sys.modules["torch"] = blocked

import tvm  # noqa: E402
from tvm.script import tirx as T  # noqa: E402


@T.prim_func(s_tir=True)
def scale(
    x: T.Buffer((4, 8), "float32"), w: T.Buffer((8,), "float32"), marks: T.Buffer((256,), "uint8")
):
    """x *= w in parallel over rows; row i leaves i + 1 in marks."""
    T.func_attr({"global_symbol": "scale", "tirx.is_scheduled": True})
    for i in T.parallel(4):
        for j in T.serial(8):
            with T.sblock("scale"):
                T.reads()
                T.writes()
                x[i, j] = x[i, j] * w[j]
                marks[i] = T.Cast("uint8", i + 1)


@T.prim_func(s_tir=True)
def stamp(marks: T.Buffer((256,), "uint8"), kv_handle: T.handle, table: T.Buffer((2, 12), "int32")):
    """Adds marks[0..3] to slots 0..3 of the first page of each sequence."""
    T.func_attr({"global_symbol": "stamp", "tirx.is_scheduled": True})
    pages = T.int32()
    kv = T.match_buffer(kv_handle, (pages, 2, 1, 32), "float32")
    for s in T.serial(2):
        for t in T.serial(4):
            with T.sblock("stamp"):
                T.reads()
                T.writes()
                kv[table[s, 8], 0, 0, t] = kv[table[s, 8], 0, 0, t] + T.Cast("float32", marks[t])


@T.prim_func(s_tir=True)
def advance(
    x: T.Buffer((4, 8), "float32"),
    table: T.Buffer((2, 12), "int32"),
    step: T.Buffer((8,), "int32"),
    wide: T.Buffer((512,), "uint8"),
):
    """x[0, 0] += 1 and one token more per sequence, which stops at its limit."""
    T.func_attr({"global_symbol": "advance", "tirx.is_scheduled": True})
    assert step[7] == 0, "the reserved field of step is not zero"
    for s in T.serial(2):
        with T.sblock("advance"):
            T.reads()
            T.writes()
            table[s, 0] = table[s, 0] + 1
            if table[s, 0] >= table[s, 4]:
                table[s, 3] = 2
    x[0, 0] = x[0, 0] + T.float32(1)
    wide[511] = T.uint8(7)


@T.prim_func(s_tir=True)
def spin(x: T.Buffer((4, 8), "float32"), step: T.Buffer((8,), "int32")):
    """x[1, 0] goes through step[3] dependent additions: as slow as asked."""
    T.func_attr({"global_symbol": "spin", "tirx.is_scheduled": True})
    for _ in T.serial(step[3]):
        x[1, 0] = x[1, 0] * T.float32(0.5) + T.float32(1)
    x[1, 1] = x[1, 1] + T.float32(1)


@T.prim_func(s_tir=True)
def plan_prefill(
    x: T.Buffer((4, 8), "float32"),
    w: T.Buffer((8,), "float32"),
    scratch: T.Buffer((256,), "uint8"),
    kv_handle: T.handle,
    table: T.Buffer((2, 12), "int32"),
    k: T.int32,
):
    T.func_attr({"global_symbol": "plan_prefill", "tirx.is_scheduled": True})
    pages = T.int32()
    kv = T.match_buffer(kv_handle, (pages, 2, 1, 32), "float32")
    for _ in T.serial(k):
        T.evaluate(T.call_cpacked("scale", x, w, scratch))
        T.evaluate(T.call_cpacked("stamp", scratch, kv, table))


@T.prim_func(s_tir=True)
def plan_decode(
    x: T.Buffer((4, 8), "float32"),
    table: T.Buffer((2, 12), "int32"),
    step: T.Buffer((8,), "int32"),
    scratch: T.Buffer((512,), "uint8"),
    k: T.int32,
):
    T.func_attr({"global_symbol": "plan_decode", "tirx.is_scheduled": True})
    for _ in T.serial(k):
        if table[0, 3] == 0:
            T.evaluate(T.call_cpacked("advance", x, table, step, scratch))


@T.prim_func(s_tir=True)
def plan_spin(x: T.Buffer((4, 8), "float32"), step: T.Buffer((8,), "int32"), k: T.int32):
    T.func_attr({"global_symbol": "plan_spin", "tirx.is_scheduled": True})
    for _ in T.serial(k):
        T.evaluate(T.call_cpacked("spin", x, step))


if __name__ == "__main__":
    functions = [scale, stamp, advance, spin, plan_prefill, plan_decode, plan_spin]
    named = {str(function.attrs["global_symbol"]): function for function in functions}
    target = tvm.target.Target({"kind": "llvm"})
    tvm.compile(tvm.IRModule(named), target=target).export_library(sys.argv[1])
