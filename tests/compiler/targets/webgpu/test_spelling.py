"""Every operation that shipped kernels use is documented, has a WGSL spelling, and could have one
in a language without vectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import tvm_ffi
from tvm import DataType, tirx
from tvm.ir import Call, Expr, is_prim_expr
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import OPERATIONS, PREFIX, dtype_of
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, kernel, store
from edgewise_compiler.targets.gpu.spelling import operation_of, spelled
from edgewise_compiler.targets.webgpu.codegen import shader
from edgewise_compiler.targets.webgpu.spelling import WGSL
from edgewise_compiler.targets.webgpu.variants import variants_for
from edgewise_runtime.errors import CompileError
from tests.compiler.targets.webgpu.programs import program_plans
from tests.shaders.checks import BUNDLES

Texts = Sequence[str]
"""An expression in C: a text for each lane."""

Use = tuple[str, str, tuple[str, ...]]
"""An expression of a kernel: an operation with its prefix or the name of a TIR node, its dtype, and
the dtypes of an operation's arguments."""

C_TYPES = {"float32": "float", "float16": "_Float16", "int32": "int", "uint32": "unsigned"}


def per_lane(function: str) -> Callable[..., Texts]:
    """A C function of scalars, called for each lane; scalars go to every one of them."""

    def spell(dtype: str, *arguments: Texts) -> Texts:
        lanes = DataType(dtype).lanes
        spread = [a if len(a) == lanes else list(a) * lanes for a in arguments]
        return [f"{function}({', '.join(lane)})" for lane in zip(*spread, strict=True)]

    return spell


def bits(dtype: str, value: Texts) -> Texts:
    to = C_TYPES[scalar_of(dtype)]
    return [f"bits_as_{to}({lane})" for lane in value]


def select(dtype: str, condition: Texts, a: Texts, b: Texts) -> Texts:
    return [f"({condition[0]} ? {x} : {y})" for x, y in zip(a, b, strict=True)]


C: Mapping[str, Callable[..., Texts]] = {
    "fma": per_lane("fmaf"),
    "exp2": per_lane("exp2f"),
    "round": per_lane("rintf"),
    "abs": per_lane("fabsf"),
    "inverse_sqrt": per_lane("rsqrtf"),
    "bits": bits,
    "select": select,
    "splat": lambda dtype, scalar: list(scalar) * DataType(dtype).lanes,
    "vector": lambda dtype, *scalars: [text for (text,) in scalars],
    "join": lambda dtype, low, high: [*low, *high],
    "unpack_halves": lambda dtype, word: [f"half_of({word[0]}, {i})" for i in range(2)],
    "pack_halves": lambda dtype, pair: [f"halves({', '.join(pair)})"],
    "dot_int8": lambda dtype, a, b: [f"dp4a({a[0]}, {b[0]})"],
    "subgroup_size": lambda dtype: ["warp_size()"],
    "shuffle_xor": lambda dtype, value, mask: [f"shuffle({value[0]}, {mask[0]})"],
    "barrier": lambda dtype: ["(barrier(), 0)"],
    "buffer_barrier": lambda dtype: ["(barrier(), 0)"],
}
"""A language with no vectors."""

VECTOR_EXPRESSIONS = {
    "Var",
    "TensorLoad",
    "Broadcast",
    "Cast",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "RShift",
}
"""What kernels make vectors with besides operations: all of it works lane by lane."""


def scalar_of(dtype: str) -> str:
    return str(DataType(dtype).with_lanes(1))


def is_vector(dtype: str) -> bool:
    return DataType(dtype).lanes > 1


@pytest.fixture(scope="module")
def uses(checkpoints: Callable[[str], Path]) -> set[Use]:
    """What the kernels are made of, of every program of the bundles in tests/shaders."""
    kernels: dict[str, PrimFunc] = {}
    for case, quant, kv in BUNDLES:
        for variant in variants_for(quant, kv):
            _, made = program_plans(checkpoints(case), quant, variant)
            for call in (call for plan in made.plans for call in plan.calls):
                kernels[str(call.kernel.attrs["global_symbol"])] = call.kernel
    found: set[Use] = set()

    def note(node: Expr) -> None:
        if not is_prim_expr(node):
            return
        name = operation_of(node) if isinstance(node, Call) else None
        arguments = () if name is None else tuple(map(dtype_of, node.args[1:]))
        found.add((name or type(node).__name__, dtype_of(node), arguments))

    for function in kernels.values():
        tvm_ffi.structural_walk(function.body, (Expr, note))
    return found


def operations(uses: set[Use]) -> list[Use]:
    return [(n.removeprefix(PREFIX), *rest) for n, *rest in uses if n.startswith(PREFIX)]


@pytest.mark.landing
def test_kernels_use_what_is_documented_and_wgsl_spells_it_all(uses: set[Use]) -> None:
    used = {name for name, *_ in operations(uses)}
    assert used == set(OPERATIONS) == set(WGSL)


@pytest.mark.landing
def test_a_language_without_vectors_can_spell_all_of_it(uses: set[Use]) -> None:
    for name, dtype, arguments in operations(uses):
        texts = [
            [f"x{i}_{lane}" for lane in range(DataType(argument).lanes)]
            for i, argument in enumerate(arguments)
        ]
        spelling = C[name](dtype, *texts)
        assert len(spelling) == DataType(dtype).lanes, (name, dtype, arguments)
        assert scalar_of(dtype) in C_TYPES
        if OPERATIONS[name].lanewise:
            for i, text in enumerate(spelling):
                own = {f"x{a}_{i if len(t) > 1 else 0}" for a, t in enumerate(texts)}
                assert set(re.findall(r"x\d_\d", text)) == own


@pytest.mark.landing
def test_vectors_are_made_and_combined_as_documented(uses: set[Use]) -> None:
    vectors = [(name, dtype) for name, dtype, _ in uses if is_vector(dtype)]
    made = {name for name, _ in vectors if not name.startswith(PREFIX)}
    assert made == VECTOR_EXPRESSIONS
    assert {scalar_of(dtype) for _, dtype in vectors} == {"float32", "float16", "uint32"}


def calling(name: str) -> Launch:
    def body(thread: Thread, y: Buffer) -> None:
        store(y, tirx.call_pure_extern("float32", name, y[0]), 0)

    arguments = [Arg("y", "float32", (4,))]
    return kernel("calling", arguments, body, threads=1, grid=(1, 1), bounds={})


def test_an_operation_without_a_spelling_is_refused_by_name() -> None:
    table = {name: spelling for name, spelling in WGSL.items() if name != "exp2"}
    with pytest.raises(CompileError, match=r"'calling' .*'ew\.exp2'.* OpenCL") as caught:
        spelled(calling("ew.exp2").function, table, "OpenCL")
    assert caught.value.code == "compile.operation"


@pytest.mark.parametrize("name", ["exp2", "ew.unknown"])
def test_what_is_no_operation_is_refused_by_name(name: str) -> None:
    with pytest.raises(CompileError, match=f"'{name}'"):
        shader(calling(name).function)
