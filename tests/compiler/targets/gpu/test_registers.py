"""Values that are kept: a name where one will do, and an array where only that is right."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.thread import Thread, keep, kernel, local, store, when
from edgewise_compiler.targets.webgpu.codegen import PRINTER, bind
from edgewise_runtime.errors import CompileError


def kept(thread: Thread, x: Buffer, z: Buffer) -> None:
    value = keep(x[thread.t] + 1)
    store(z, value * value, thread.t)


def kept_in_a_loop(thread: Thread, x: Buffer, z: Buffer) -> None:
    with T.serial(0, 4) as i:
        value = keep(x[thread.t] + i)
        with when(value > 2):
            store(z, value, thread.t)


def kept_one_in_the_other(thread: Thread, x: Buffer, z: Buffer) -> None:
    store(z, keep(keep(x[thread.t] + 1) * 2) + 1, thread.t)


def written_twice(thread: Thread, x: Buffer, z: Buffer) -> None:
    register = local((1,), "int32")
    store(register, 0, 0)
    store(register, register[0] + x[thread.t], 0)
    store(z, register[0], thread.t)


def read_after_its_branch(thread: Thread, x: Buffer, z: Buffer) -> None:
    register = local((1,), "int32")
    with when(x[thread.t] > 0):
        store(register, 7, 0)
    store(z, register[0], thread.t)


def read_before_the_next_turn_writes(thread: Thread, x: Buffer, z: Buffer) -> None:
    register = local((1,), "int32")
    with T.serial(0, 4) as i:
        with when(i > 0):
            store(z, register[0], thread.t)
        store(register, x[thread.t] + i, 0)


def read_after_its_loop(thread: Thread, x: Buffer, z: Buffer) -> None:
    register = local((1,), "int32")
    with T.serial(0, 4) as i:
        store(register, x[thread.t] + i, 0)
    store(z, register[0], thread.t)


def of_two(thread: Thread, x: Buffer, z: Buffer) -> None:
    register = local((2,), "int32")
    store(register, x[thread.t], 1)
    store(z, register[1], thread.t)


def text(body: Callable[[Thread, Buffer, Buffer], None]) -> str:
    arguments = [Arg(name, "int32", (32,)) for name in "xz"]
    launch = kernel("some", arguments, body, threads=32, grid=(1, 1), bounds={})
    return PRINTER.shader(launch.function).source


@pytest.mark.parametrize("body", [kept, kept_in_a_loop, kept_one_in_the_other])
def test_what_is_written_once_and_read_after_that_is_a_name(
    body: Callable[[Thread, Buffer, Buffer], None],
) -> None:
    source = text(body)
    assert not re.search(r"\bvar \w+ : array", source)
    assert re.search(r"\blet \w+ : i32 = ", source)


@pytest.mark.parametrize(
    "body",
    [
        written_twice,
        read_after_its_branch,
        read_before_the_next_turn_writes,
        read_after_its_loop,
        of_two,
    ],
)
def test_any_other_stays_an_array(body: Callable[[Thread, Buffer, Buffer], None]) -> None:
    assert len(re.findall(r"\bvar \w+ : array", text(body))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "  var once : array<i32, 1>;\n",
        "  var once : array<i32, 1>;\n  once[0i] = 1i;\n  once[0i] = 2i;\n",
        "  once_1[0i] = 1i;\n",
    ],
)
def test_a_text_in_which_one_is_not_written_once_is_refused(wrong: str) -> None:
    with pytest.raises(CompileError, match="once each"):
        bind(wrong)


def test_what_is_computed_in_a_loop_is_named_there() -> None:
    source = text(kept_in_a_loop)
    assert source.index("for (") < source.index("let ", source.index("for ("))
