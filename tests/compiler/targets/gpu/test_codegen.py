"""TVM's printers behind one description: what plans must know of a kernel in any language."""

from __future__ import annotations

import pytest
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.kernels.gpu.operations import fma, number
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, kernel, store
from edgewise_compiler.targets.gpu.codegen import Printer
from edgewise_compiler.targets.webgpu.spelling import WGSL
from edgewise_runtime.errors import CompileError

# What is spelled like WGSL here only has the right number of arguments.
LANGUAGES = [Printer(kind, kind, WGSL, LEAST) for kind in ("webgpu", "metal", "cuda")]

each_language = pytest.mark.parametrize("printer", LANGUAGES, ids=lambda p: p.kind)


def scaled(threads: int = 32, grid: int = 3) -> Launch:
    """``z = x*z + 1``, ``y = z``."""

    def body(thread: Thread, x: Buffer, y: Buffer, z: Buffer) -> None:
        store(z, fma(x[thread.t], z[thread.t], number(1.0)), thread.t)
        store(y, z[thread.t], thread.t)

    arguments = [Arg(name, "float32", (threads,)) for name in "xyz"]
    return kernel("scaled", arguments, body, threads=threads, grid=(grid, 1), bounds={})


@each_language
def test_a_kernel_is_one_text_with_its_threads_and_what_it_writes(printer: Printer) -> None:
    made = printer.shader(scaled().function)
    assert f"{made.entry}(" in made.source
    assert made.workgroup == (32, 1, 1)
    assert made.access == ("read", "read_write", "read_write")
    places = [made.source.index(f"b{i}_{name}") for i, name in enumerate("xyz")]
    assert places == sorted(places)


@each_language
def test_a_product_that_is_added_to_stays_one_operation(printer: Printer) -> None:
    source = printer.shader(scaled().function).source
    (line,) = (line for line in source.splitlines() if "fma(" in line)
    assert " * " not in line
    assert " + " not in line


@each_language
def test_a_kernel_beyond_the_limits_is_refused_by_the_targets_name(printer: Printer) -> None:
    with pytest.raises(CompileError, match=LEAST.target) as error:
        printer.shader(scaled(threads=LEAST.threads * 2).function)
    assert error.value.code == "compile.limits"


def test_what_tvm_has_no_printer_for_is_refused_with_its_reason() -> None:
    printer = Printer("SPIR-V", "vulkan", WGSL, LEAST)
    with pytest.raises(CompileError, match=r"'scaled' has no SPIR-V: .*target\.build\.vulkan"):
        printer.shader(scaled().function)
