"""Linears by tensor cores, and their instruction as PTX has it, executed on the emulator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.tensor import fits, matmul_tensor, tile_for
from edgewise_compiler.kernels.gpu.operations import mma
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, kernel, store
from edgewise_compiler.targets.cuda.codegen import shader
from edgewise_compiler.targets.cuda.fatbin import fatbin
from edgewise_compiler.targets.webgpu import codegen as webgpu
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.fatbin import read_images, read_uses
from tests.compiler.kernels.gpu.packing import KINDS, columns
from tests.compiler.kernels.gpu.test_matmul import Case, Inputs, N
from tests.gpu import Array
from tests.gpu_emulator.execute import EmulatorError, run_shader


def multiply(launch: Launch, arrays: Sequence[Array], grid: tuple[int, int]) -> list[Array]:
    return run_shader(shader(launch.function), arrays, grid)


# --- the instruction -----------------------------------------------------------------------------


def one_instruction() -> Launch:
    arguments = [Arg("a", "uint32x4", (32,)), Arg("b", "uint32x2", (32,))]
    arguments += [Arg("c", "float32x4", (32,)), Arg("d", "float32x4", (32,))]

    def body(thread: Thread, a: Buffer, b: Buffer, c: Buffer, d: Buffer) -> None:
        store(d, mma(a[thread.t], b[thread.t], c[thread.t]), thread.t)

    return kernel("one", arguments, body, threads=32, grid=(1, 1), bounds={}, subgroups=True)


def fragments(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """Matrices as 32 threads hold them, by the formulas of the PTX ISA for ``.f16`` operands.

    "Matrix Fragments for mma.m16n8k16 with floating point type": of A's eight elements, row is
    ``groupID`` for i in 0, 1, 4, 5 and ``groupID + 8`` else, column ``threadID_in_group * 2 +
    (i & 1)``, and 8 more from i = 4 on; of B's four, row ``threadID_in_group * 2 + (i & 1)``, and 8
    more from i = 2 on, column ``groupID``; of C's four, row ``groupID``, and 8 more from i = 2 on,
    column ``threadID_in_group * 2 + (i & 1)``.
    """
    of_a, of_b, of_c = np.zeros((32, 8), "f2"), np.zeros((32, 4), "f2"), np.zeros((32, 4), "f4")
    for thread in range(32):
        group, place = thread >> 2, thread % 4
        for i in range(8):
            row = group if i in (0, 1, 4, 5) else group + 8
            of_a[thread, i] = a[row, place * 2 + (i & 1) + (8 if i >= 4 else 0)]
        for i in range(4):
            of_b[thread, i] = b[place * 2 + (i & 1) + (8 if i >= 2 else 0), group]
            of_c[thread, i] = c[group + (8 if i >= 2 else 0), place * 2 + (i & 1)]
    return of_a.view("u4"), of_b.view("u4"), of_c


def test_an_instruction_multiplies_matrices_that_lie_as_ptx_has_them() -> None:
    rng = np.random.default_rng(1)
    # Whole numbers: any order of the sum gives the same.
    a = rng.integers(-9, 9, (16, 16)).astype("f4")
    b, c = rng.integers(-9, 9, (16, 8)).astype("f4"), rng.integers(-99, 99, (16, 8)).astype("f4")
    given = fragments(a, b, c)
    found = multiply(one_instruction(), [*given, np.zeros((32, 4), "f4")], (1, 1))[-1]
    np.testing.assert_array_equal(found, fragments(a, b, c + a @ b)[2])


def test_the_instruction_is_one_of_ptx_and_no_other_language_has_it() -> None:
    made = shader(one_instruction().function)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in made.source
    assert [str(i) for i in read_images("one", fatbin("one", made.source))][:1] == ["sm_80"]
    with pytest.raises(CompileError, match=r"'ew.mma', which has no spelling in WGSL") as refused:
        webgpu.shader(one_instruction().function)
    assert refused.value.code == "compile.operation"


# --- linears -------------------------------------------------------------------------------------

TOLERANCE = 7e-4
"""Relative to the sum of the products' sizes: each is off by up to 2^-10, at random."""

CASES = [
    *(Case(96, columns(scheme, 96), scheme) for scheme in KINDS),
    Case(32, 32, "q4"),
    Case(160, 256, "q4", "add", bias=True),
    Case(96, 128, "q4", "swiglu"),
    Case(128, 96, "f16", "swiglu", bias=True),
    # A matrix whose tiles have 128 columns, the last one fewer.
    Case(4128, 96, "q5", "swiglu"),
    Case(4128, 96, "q5_nl", "swiglu"),
    Case(4128, 160, "q8", "add", bias=True),
]
QUICK = [Case(160, 256, "q4", "add", bias=True), Case(96, 128, "q4", "swiglu")]
each_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=() if c in QUICK else pytest.mark.full, id="-".join(map(str, c)))
        for c in CASES
    ],
)


class TensorInputs(Inputs):
    """The inputs of a case, for the kernel with tensor cores."""

    def run(self, few: bool, live: int, x: Array | None = None) -> Array:
        case = self.case
        sizes = (N, case.NP, case.K, case.scheme, case.epilogue, case.bias)
        launch = matmul_tensor(PartSpec(*sizes, live=N, width=self.out.shape[1]), few=few)
        step = np.array([live, 1, 0, 0, 0, 0, 0, 0], np.int32)
        bias = [self.bias] if case.bias else []
        given = self.x if x is None else x
        arrays = [given, *self.packed, *bias, self.out, step]
        return multiply(launch, arrays, launch.workgroups(n=max(live, 1)))[-2]


@pytest.mark.quick(cases=1)
@each_case
@pytest.mark.parametrize("live", [1, 13, 65, N])
def test_outputs_equal_numpy_and_other_rows_stay(case: Case, live: int) -> None:
    inputs = TensorInputs(case, seed=live)
    expected, size = inputs.expected(live)
    error = np.abs(inputs.run(live < 16, live) - expected)
    assert (error <= TOLERANCE * size).all(), (error / size).max()
    assert not error[live:].any()


@pytest.mark.quick(cases=1)
@each_case
def test_a_row_has_the_same_bits_in_either_tile_and_any_company(case: Case) -> None:
    inputs = TensorInputs(case, seed=7)
    whole = inputs.run(False, N)
    np.testing.assert_array_equal(inputs.run(True, N), whole)
    np.testing.assert_array_equal(inputs.run(True, 1)[0], whole[0])
    if case.epilogue != "add":
        moved = inputs.run(False, N, np.roll(inputs.x, 5, axis=0))
        np.testing.assert_array_equal(np.roll(whole, 5, axis=0), moved)


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_stays_alone(few: bool, value: float) -> None:
    inputs = TensorInputs(Case(32, 96, "q4"), seed=4)
    clean = inputs.run(few, 5)
    inputs.x[[2, 5]] = value  # a live row, and one that no longer counts
    found = inputs.run(few, 5)
    assert not np.isfinite(found[2]).any()
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(found[others], clean[others])


def test_nothing_happens_without_rows() -> None:
    inputs = TensorInputs(Case(64, 96, "q4", "add"), seed=1)
    np.testing.assert_array_equal(inputs.run(False, 0), inputs.out)


WRONG = {
    "rows of a fragment are taken for columns": (
        r"make_uint4\((v\d+)\.x, (v\d+)\.x, v\d+\.y, v\d+\.y\)",
        r"make_uint4(\1.x, \1.y, \2.x, \2.y)",
    ),
    "an instruction has the sums of another": (r"(ew_mma\(\w+, \w+), r1\[1\]\)", r"\1, r1[0])"),
}


def largest_error(change: tuple[str, str] | None = None) -> float:
    """Of a kernel's outputs, once a place in its text is changed; in sizes of what is added up."""
    inputs = TensorInputs(Case(32, 64, "q4"), seed=3)
    launch = matmul_tensor(PartSpec(N, 32, 64, "q4", live=N, width=32), few=False)
    made, count = shader(launch.function), 1
    if change is not None:
        source, count = re.subn(*change, made.source, count=1)
        made = replace(made, source=source)
    assert count == 1
    arrays = [inputs.x, *inputs.packed, inputs.out, np.array([N, 1, *[0] * 6], np.int32)]
    expected, size = inputs.expected(N)
    found = run_shader(made, arrays, launch.workgroups(n=N))[-2]
    return float((np.abs(found - expected) / size).max())


@pytest.mark.landing
@pytest.mark.parametrize("what", WRONG)
def test_it_is_seen_where(what: str) -> None:
    assert largest_error() <= TOLERANCE
    assert largest_error(WRONG[what]) > 10 * TOLERANCE


def test_it_is_seen_where_tiles_are_read_before_all_of_them_are_there() -> None:
    with pytest.raises(EmulatorError, match="thread"):
        largest_error((r"__syncthreads\(\);", ""))


def test_what_linears_come_to_ask_for_is_left_to_the_general_kernel() -> None:
    spec = PartSpec(N, 96, 64, "q4", live=N, width=96)
    assert all(fits(replace(spec, epilogue=name)) for name in ("store", "add", "swiglu", "geglu"))
    assert not fits(replace(spec, epilogue="another"))

    @dataclass(frozen=True, kw_only=True)
    class Later(PartSpec):
        factor: float = 1.0

    assert fits(Later(N, 96, 64, "q4", live=N, width=96))
    assert not fits(Later(N, 96, 64, "q4", live=N, width=96, factor=2.0))


@pytest.mark.parametrize(
    ("outputs", "few"),
    [
        (28672, False),
        pytest.param(3072, False, marks=pytest.mark.full),
        pytest.param(3072, True, marks=pytest.mark.full),
    ],
)
def test_a_kernel_of_a_real_shape_fits_registers(outputs: int, few: bool) -> None:
    spec = PartSpec(512, outputs, 4096, "q4", live=512, width=outputs)
    made = shader(matmul_tensor(spec, few=few).function)
    assert made.workgroup == (tile_for(outputs, few=few).threads, 1, 1)
    for image in read_images(made.entry, fatbin(made.entry, made.source)):
        if image.kind == "cubin":
            use = read_uses(made.entry, image)[made.entry]
            assert use.stack == 0
            assert use.registers <= 128
            assert use.shared <= 16 << 10
