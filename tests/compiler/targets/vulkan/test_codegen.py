"""A kernel's module is what its file is said to be, and says of every value what drivers may not
do with it."""

from __future__ import annotations

import re
import struct

import pytest
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import f32, fma, number, u32
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    buffer_barrier,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.targets.vulkan.codegen import ENTRY, shader
from edgewise_compiler.targets.vulkan.listing import listing
from edgewise_runtime.errors import CompileError
from tests.compiler.targets.vulkan.validator import complaints

THREADS = 32


def scaled(thread: Thread, x: Buffer, y: Buffer, z: Buffer) -> None:
    """``z = (x*z + 1) - x / z``, ``y = z``."""
    at = thread.t
    store(z, fma(x[at], z[at], number(1.0)) - x[at] / z[at], at)
    store(y, z[at], at)


def made(body: object, *dtypes: str) -> Launch:
    arguments = [Arg(f"a{i}", dtype, (THREADS,)) for i, dtype in enumerate(dtypes)]
    return kernel("made", arguments, body, threads=THREADS, grid=(3, 2), bounds={})  # type: ignore[arg-type]


def lines(launch: Launch) -> list[str]:
    return listing(shader(launch.function).file).splitlines()


def test_a_kernel_is_one_valid_module_with_its_threads_and_what_it_writes() -> None:
    launch = made(scaled, *["float32"] * 3)
    one = shader(launch.function)
    assert one.binary is not None
    assert one.source == ""
    assert (one.entry, one.workgroup) == (ENTRY, (THREADS, 1, 1))
    assert one.access == ("read", "read_write", "read_write")
    assert complaints(one.file) == ""
    entry = next(line for line in lines(launch) if "EntryPoint" in line)
    assert f" {ENTRY!r} " in entry
    assert f"OpExecutionMode {entry.split()[2]} 17 {THREADS} 1 1" in lines(launch)


def test_arguments_are_the_bindings_of_set_0_in_order() -> None:
    launch = made(scaled, *["float32"] * 3)
    text = lines(launch)
    sets = [line for line in text if re.fullmatch(r"OpDecorate \d+ 34 0", line)]
    bound = [re.fullmatch(r"OpDecorate (\d+) 33 (\d+)", line) for line in text]
    variables = {int(found[2]): found[1] for found in bound if found}
    assert len(sets) == 3
    assert list(variables) == [0, 1, 2]
    read_only = {i for i, name in variables.items() if f"OpDecorate {name} 24" in text}
    assert read_only == {0}


def test_floats_are_neither_fused_nor_reordered() -> None:
    text = lines(made(scaled, *["float32"] * 3))
    for operation in ("OpExtInst Fma", "OpFSub", "OpFDiv"):
        (line,) = (line for line in text if f"= {operation} " in line)
        assert f"OpDecorate {line.split()[0][1:]} 42" in text


def test_the_same_kernel_gives_the_same_bytes() -> None:
    first, again = (made(scaled, *["float32"] * 3) for _ in range(2))
    assert shader(first.function).file == shader(again.function).file


def test_stores_to_buffers_are_seen_where_a_kernel_waits_for_them() -> None:
    def waits(thread: Thread, x: Buffer, y: Buffer) -> None:
        store(y, x[thread.t], thread.t)
        buffer_barrier()
        store(y, y[thread.t ^ 1], thread.t)

    def does_not(thread: Thread, x: Buffer, y: Buffer) -> None:
        held = shared((THREADS,))
        store(held, x[thread.t], thread.t)
        barrier()
        store(y, held[thread.t ^ 1], thread.t)

    def coherent(launch: Launch) -> int:
        return len([x for x in lines(launch) if re.fullmatch(r"OpDecorate \d+ 23", x)])

    def semantics(launch: Launch) -> int:
        (line,) = (line for line in lines(launch) if "OpControlBarrier" in line)
        name = line.split()[-1]
        (made,) = (x for x in lines(launch) if x.startswith(f"%{name} = OpConstant "))
        return int(made.split()[-1])

    one, other = made(waits, "float32", "float32"), made(does_not, "float32", "float32")
    assert (coherent(one), coherent(other)) == (1, 0)
    assert (semantics(one), semantics(other)) == (0x48, 0x108)


def test_registers_take_no_memory_and_what_is_not_used_no_code() -> None:
    def body(thread: Thread, x: Buffer, y: Buffer) -> None:
        total, unused = local((2,)), local((1,))
        store(total, 0.0, 0)
        store(total, 1.0, 1)
        with T.serial(0, 5) as i:
            store(unused, x[i], 0)
            with when(i > thread.t):
                store(total, total[0] + x[i + 7] * total[1], 0)
        store(y, total[0], thread.t)

    text = lines(made(body, "float32", "float32"))
    assert len([line for line in text if "OpVariable" in line]) == 4, "arguments and coordinates"
    assert len([line for line in text if "OpLoad" in line]) == 2, "of a coordinate and of x"
    # The total and the turn at the head of the loop, the total behind the condition.
    assert len([line for line in text if "OpPhi" in line]) == 3


def test_drivers_are_told_to_leave_loops_as_they_are() -> None:
    def body(thread: Thread, y: Buffer) -> None:
        with T.serial(0, 5) as i, T.serial(0, 3) as j:
            store(y, f32(j), i)

    merges = [line for line in lines(made(body, "float32")) if "OpLoopMerge" in line]
    assert [line.split()[-1] for line in merges] == ["2", "2"]


def test_what_a_module_needs_is_declared_and_nothing_else() -> None:
    def halves(thread: Thread, x: Buffer, y: Buffer) -> None:
        store(y, f32(x[thread.t]), thread.t)

    def capabilities(launch: Launch) -> set[int]:
        return {int(line.split()[1]) for line in lines(launch) if "OpCapability" in line}

    assert capabilities(made(scaled, *["float32"] * 3)) == {1}
    assert capabilities(made(halves, "float16", "float32")) == {1, 9, 4433}


def uint(thread: Thread, y: Buffer) -> None:
    store(y, y[thread.t] + u32(1), thread.t)


BROKEN = {
    "cut": lambda data: data[:-8],
    "without its magic number": lambda data: b"\0\0\0\0" + data[4:],
    "with a type for a value": lambda data: swapped(data, 128),
    "with another instruction": lambda data: swapped(data, 128, 129),
}


def swapped(data: bytes, opcode: int, other: int | None = None) -> bytes:
    """A module with another opcode, or another result type, in the first of its instructions."""
    words = list(struct.unpack(f"<{len(data) // 4}I", data))
    at = 5
    while words[at] & 0xFFFF != opcode:
        at += words[at] >> 16
    if other is None:
        words[at + 1] = words[at + 2]
    else:
        words[at] = words[at] - opcode + other
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize("how", BROKEN)
def test_the_validator_refuses_a_module(how: str) -> None:
    module = shader(made(uint, "uint32").function).file
    assert complaints(module) == ""
    assert complaints(BROKEN[how](module)) != ""


@pytest.mark.parametrize("data", [b"", b"\x03\x02\x23", bytes(20), b"\x03\x02\x23\x07" + bytes(24)])
def test_what_is_no_module_has_no_listing(data: bytes) -> None:
    with pytest.raises(CompileError, match="SPIR-V"):
        listing(data)
