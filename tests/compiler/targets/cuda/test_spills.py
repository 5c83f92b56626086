"""Kernels of real shapes keep nothing of a thread in memory but for what they share or write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkpoint import SHAPES, config
from edgewise_compiler.kernels.gpu.matmul.matmul import matmul
from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.options import Bounds
from edgewise_compiler.targets.cuda.codegen import shader
from edgewise_compiler.targets.cuda.fatbin import CUBINS, OPTIONS, fatbin
from edgewise_compiler.targets.cuda.limits import LIMITS
from edgewise_compiler.targets.cuda.nvidia import compile_text
from edgewise_compiler.targets.cuda.variants import variants_for
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_runtime.format.fatbin import Image, read_images, read_uses
from tests.compiler.kernels.every_kernel import gpu_calls, kernels_of


def stacks(made: Shader) -> dict[int, int]:
    """Bytes of a thread's that are in memory, by architecture."""
    images = read_images(made.entry, fatbin(made.entry, made.source))
    cubins = [image for image in images if image.kind == "cubin"]
    assert [image.arch for image in cubins] == [*CUBINS]
    return {image.arch: read_uses(made.entry, image)[made.entry].stack for image in cubins}


def tile_of_few_rows() -> Launch:
    """A prompt's first linear in float32, of Llama-3.2-1B's shape."""
    spec = PartSpec(rows=512, outputs=3072, inputs=2048, scheme="f16", live=512, width=3072)
    return matmul(spec, few=True, half=False)


def eight_rows() -> Launch:
    """A token's first linear for many sequences, of Llama-3.1-8B's shape."""
    spec = PartSpec(rows=512, outputs=6144, inputs=4096, scheme="q4", live=32, width=6144)
    return matvec(spec, batch=8, norm=1e-5, subgroups=True)


@pytest.mark.parametrize(
    ("make", "arch"),
    [(tile_of_few_rows, 90), pytest.param(eight_rows, 80, marks=pytest.mark.full)],
)
def test_a_kernel_that_ptxas_spills_by_default_is_compiled_so_that_it_does_not(
    make: Callable[[], Launch], arch: int
) -> None:
    made = shader(make().function)
    image = compile_text(made.entry, made.source, (f"-arch=sm_{arch}", *OPTIONS)).image
    assert read_uses(made.entry, Image("cubin", arch, image))[made.entry].stack == 8
    assert stacks(made) == {80: 0, 90: 0}


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "quant"), [("llama-3.2-1b", "f16"), ("llama-3.1-8b", "q4"), ("qwen3-0.6b", "q4")]
)
def test_no_kernel_of_a_model_spills(shape: str, quant: str) -> None:
    hf = {**config(SHAPES[shape]), "num_hidden_layers": 1}
    bounds = Bounds(rows=512, batch=32, context=8192)
    spilled, count = {}, 0
    for variant in variants_for(quant):
        for name, function in kernels_of(gpu_calls(hf, bounds, quant, variant, LIMITS)).items():
            count += 1
            found = stacks(shader(function))
            if any(found.values()):
                spilled[name] = found
    assert count > 40
    assert spilled == {}
