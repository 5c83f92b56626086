"""What the printer for languages that look like C writes of statements and expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import number, splat
from edgewise_compiler.kernels.gpu.thread import Thread, bind, kernel, local, shared, store, when
from edgewise_compiler.targets.cuda.codegen import PRINTER
from edgewise_compiler.targets.gpu.clike.expressions import bare
from edgewise_runtime.errors import CompileError

Body = Callable[..., None]
N, Y = Arg("n", "int32", (8,)), Arg("y", "int32", (8,))


def lines(body: Body, *arguments: Arg) -> list[str]:
    """What a kernel does, line by line in CUDA C."""
    made = kernel("one", arguments, body, threads=4, grid=(1, 1), bounds={})
    text = PRINTER.shader(made.function).source
    inside = text.partition("int t = (int)threadIdx.x;\n")[2]
    return [line.strip() for line in inside.splitlines()][:-1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0f"),
        (1.0, "1.0f"),
        (-2.5, "(-2.5f)"),
        (1e30, "1.00000002e+30f"),
        (16777216.0, "__uint_as_float(1266679808u)"),
        (1.5e-45, "1.40129846e-45f"),
    ],
)
def test_a_float_is_a_literal_of_its_own_bits(value: float, text: str) -> None:
    def body(thread: Thread, y: Buffer) -> None:
        store(y, number(value), 0)

    assert lines(body, Arg("y", "float32", (8,))) == [f"b0_y[0] = {bare(text)};"]


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (-7, "-7"), (-(1 << 31), "-2147483647 - 1")])
def test_an_integer_is_a_literal_that_c_takes(value: int, text: str) -> None:
    def body(thread: Thread, y: Buffer) -> None:
        store(y, tirx.const(value, "int32"), 0)

    assert lines(body, Y) == [f"b0_y[0] = {text};"]


def test_operators_stand_in_parentheses_but_not_around_everything() -> None:
    def body(thread: Thread, n: Buffer, y: Buffer) -> None:
        store(y, (n[0] + n[1]) * (n[2] - n[3]), n[4] & 7)

    assert lines(body, N, Y) == ["b1_y[b0_n[4] & 7] = (b0_n[0] + b0_n[1]) * (b0_n[2] - b0_n[3]);"]


def test_a_register_is_a_variable_and_the_end_of_a_loop_is_taken_once() -> None:
    def body(thread: Thread, n: Buffer, y: Buffer) -> None:
        sums = local((1,), "int32")
        store(sums, 0, 0)
        with T.serial(1, 5) as i, T.serial(0, n[0]) as j:
            store(sums, sums[0] ^ (i + j), 0)
        with when(sums[0] > 3):
            store(y, sums[0], thread.t)

    assert lines(body, N, Y) == [
        "int r1;",
        "r1 = 0;",
        "for (int i1 = 1, i1_end = 1 + 4; i1 < i1_end; ++i1) {",
        "for (int i2 = 0, i2_end = b0_n[0]; i2 < i2_end; ++i2) {",
        "r1 = r1 ^ (i1 + i2);",
        "}",
        "}",
        "if (r1 > 3) {",
        "b1_y[t] = r1;",
        "}",
    ]


def test_shared_memory_is_declared_at_the_beginning() -> None:
    def body(thread: Thread, n: Buffer, y: Buffer) -> None:
        with when(n[0] > 0):
            scratch = shared((8,))
            store(scratch, 1.0, thread.t)
            store(y, scratch[thread.t], thread.t)

    arguments = [Arg("n", "int32", (8,)), Arg("y", "float32", (8,))]
    made = kernel("one", arguments, body, threads=4, grid=(1, 1), bounds={})
    assert ") {\n  __shared__ float s1[8];\n  const int x" in PRINTER.shader(made.function).source


def test_a_type_that_the_language_has_not_is_refused_by_name() -> None:
    def body(thread: Thread, y: Buffer) -> None:
        store(y, bind(splat(number(1.0), 3)), 0)

    with pytest.raises(CompileError, match=r"'one' asks for .*float32x3.* CUDA C") as caught:
        lines(body, Arg("y", "float32x3", (8,)))
    assert caught.value.code == "compile.operation"


def test_a_kernel_that_does_not_use_an_argument_is_refused() -> None:
    def body(thread: Thread, n: Buffer, y: Buffer) -> None:
        store(y, 1, 0)

    with pytest.raises(CompileError, match="'one' does not use all of its arguments"):
        lines(body, N, Y)


def test_a_language_without_an_operation_refuses_it_by_name() -> None:
    few = {name: spell for name, spell in PRINTER.dialect.operations.items() if name != "splat"}
    printer = replace(PRINTER, dialect=replace(PRINTER.dialect, operations=few), drivers=())

    def body(thread: Thread, y: Buffer) -> None:
        store(y, splat(number(3.25)), 0)

    arguments = [Arg("y", "float32x4", (1,))]
    made = kernel("without_splat", arguments, body, threads=1, grid=(1, 1), bounds={})
    with pytest.raises(CompileError, match=r"'without_splat' asks for 'ew\.splat'"):
        printer.shader(made.function)


@pytest.mark.parametrize(
    ("text", "alone"),
    [("(a + b)", "a + b"), ("(a) + (b)", "(a) + (b)"), ("f(a)", "f(a)"), ("((a))", "(a)")],
)
def test_only_parentheses_around_everything_are_left_out(text: str, alone: str) -> None:
    assert bare(text) == alone
