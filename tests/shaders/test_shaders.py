"""Tint (Chromium) and naga (wgpu, Firefox) accept every shader under WebGPU's default limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise_compiler.kernels.gpu.elementwise.embed import TablePart, embed
from edgewise_compiler.kernels.gpu.elementwise.norm import rms_norm
from edgewise_compiler.kernels.gpu.elementwise.unfused import add, gather, swiglu
from edgewise_compiler.kernels.gpu.matmul.matmul import matmul
from edgewise_compiler.kernels.gpu.matmul.matmul_int8 import matmul_int8
from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.serial import matmul_serial
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.targets.webgpu.codegen import shader
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS
from tests.conftest import BundleFactory
from tests.shaders.checks import BUNDLES, MORE_BUNDLES, Source, naga, shaders_of, source, tint

COMPILERS = {"tint": tint, "naga": naga}
each_compiler = pytest.mark.parametrize("compiler", COMPILERS.values(), ids=COMPILERS)
Compiler = Callable[[list[Source]], dict[str, list[str]]]


@pytest.mark.landing
@each_compiler
@pytest.mark.parametrize(
    "which", [BUNDLES, pytest.param(MORE_BUNDLES, marks=pytest.mark.full)], ids=["some", "more"]
)
def test_every_shader_is_accepted(
    which: list[tuple[str, str, str]], compiler: Compiler, bundles: BundleFactory
) -> None:
    shaders = shaders_of(
        bundles(case, quant, targets=("webgpu",), kv=kv) for case, quant, kv in which
    )
    results = compiler(shaders)
    assert len(results) == len(shaders) > 100
    assert {name: found for name, found in results.items() if found} == {}


# What stands alone only in a graph whose passes leave it so.
UNFUSED = [
    add(40, 96, 128, in_place=False, count=ROWS),
    add(40, 96, 96, in_place=True, count=LOGIT_ROWS),
    swiglu(40, 1120, count=ROWS),
    gather(40, 8, 96),
    rms_norm(NormSpec(8, 96, 1e-6, count=LOGIT_ROWS), subgroups=False),
    rms_norm(NormSpec(8, 96, 1e-6, count=LOGIT_ROWS), subgroups=True),
]


# Over weights that no bundle here has.
SPECS = [
    PartSpec(16, 128, 256, scheme, epilogue, bias=True, live=16, width=width)
    for scheme in SCHEMES
    if scheme not in {quant for _, quant, _ in BUNDLES}
    for epilogue, width in (("store", 128), ("swiglu", 64))
]
OVER_WEIGHTS = [
    *(embed((TablePart(spec.scheme, 96),), 16, 256) for spec in SPECS if spec.epilogue == "store"),
    *(matvec(spec, batch=2, norm=1e-6, subgroups=on) for spec in SPECS for on in (False, True)),
    *(matmul(spec, few=half, half=half) for spec in SPECS for half in (False, True)),
    *(matmul_int8(spec, few=False) for spec in SPECS if SCHEMES[spec.scheme].integer),
    *(matmul_serial(spec, single=False) for spec in SPECS),
]


@pytest.mark.landing
@each_compiler
@pytest.mark.parametrize("launches", [UNFUSED, OVER_WEIGHTS], ids=["unfused", "over weights"])
def test_kernels_that_bundles_rarely_have_are_accepted(
    launches: list[Launch], compiler: Compiler
) -> None:
    sources = [source(launch.name, shader(launch.function).source) for launch in launches]
    assert compiler(sources) == {launch.name: [] for launch in launches}


def compute(body: str, *, declare: str = "", size: int = 64) -> str:
    return f"""
@group(0) @binding(0) var<storage, read_write> a : array<f32>;
{declare}
@compute @workgroup_size({size}, 1, 1)
fn main(@builtin(local_invocation_id) t : vec3<u32>) {{ {body} }}
"""


SUBGROUPS = "enable subgroups;\n"
BUFFERS = "".join(
    f"@group(0) @binding({i}) var<storage, read_write> b{i} : array<f32>;\n" for i in range(1, 9)
)
BROKEN = {
    "a type error": compute("a[0] = 1u;"),
    "an unknown function": compute("a[0] = nothing(1.0);"),
    "nine storage buffers": compute(
        "a[0] = " + " + ".join(f"b{i}[0]" for i in range(1, 9)) + ";", declare=BUFFERS
    ),
    "257 invocations": compute("a[0] = 1.0;", size=257),
}


@each_compiler
@pytest.mark.parametrize("what", BROKEN)
def test_a_shader_is_refused_for(what: str, compiler: Compiler) -> None:
    assert compiler([source("broken", BROKEN[what])])["broken"] != []
    assert compiler([source("sound", compute("a[0] = 1.0;"))])["sound"] == []


WORKGROUP_MEMORY = "var<workgroup> w : array<f32, {}>;"
# What naga lets through: each text is sound with the second of its two values.
ONLY_FOR_TINT = {
    "17 KiB of workgroup memory": (
        lambda kib: compute(
            "w[t.x] = 1.0; a[0] = w[t.y];", declare=WORKGROUP_MEMORY.format(kib * 256)
        ),
        (17, 16),
    ),
    "a barrier that some threads do not reach": (
        lambda x: compute(f"if ({x} < 3u) {{ workgroupBarrier(); }} a[0] = 1.0;"),
        ("t.x", "2u"),
    ),
    "a barrier that depends on a buffer the shader writes": (
        lambda x: compute(f"if ({x} < 3.0) {{ workgroupBarrier(); }} a[0] = 1.0;"),
        ("a[0]", "2.0"),
    ),
    "a subgroup operation that some threads do not reach": (
        lambda x: SUBGROUPS + compute(f"if ({x} < 3u) {{ a[0] = subgroupAdd(a[1]); }}"),
        ("t.x", "2u"),
    ),
    "a shuffle beyond the largest subgroup": (
        lambda mask: SUBGROUPS + compute(f"a[0] = subgroupShuffleXor(a[1], {mask}u);"),
        (128, 64),
    ),
}


@pytest.mark.parametrize("what", ONLY_FOR_TINT)
def test_tint_refuses(what: str) -> None:
    text, values = ONLY_FOR_TINT[what]
    broken, sound = (tint([source("it", text(value))])["it"] for value in values)
    assert broken != []
    assert sound == []
