"""Khronos's validator accepts every kernel of the bundles that tests are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tvm.tirx import PrimFunc

from edgewise_compiler.targets.vulkan.codegen import shader
from edgewise_compiler.targets.vulkan.variants import variants_for
from tests.compiler.targets.vulkan.validator import complaints
from tests.compiler.targets.webgpu.programs import program_plans
from tests.shaders.checks import BUNDLES, MORE_BUNDLES

pytestmark = pytest.mark.landing


def kernels(checkpoint: Path, quant: str, kv: str) -> dict[str, PrimFunc]:
    """The kernels of all programs of a bundle, by name."""

    def each() -> Iterator[PrimFunc]:
        for variant in variants_for(quant, kv):
            _, made = program_plans(checkpoint, quant, variant)
            for plan in made.plans:
                yield from (call.kernel for call in plan.calls)

    return {str(kernel.attrs["global_symbol"]): kernel for kernel in each()}


@pytest.mark.parametrize(
    ("case", "quant", "kv"),
    [BUNDLES[0], *(pytest.param(*b, marks=pytest.mark.full) for b in BUNDLES[1:] + MORE_BUNDLES)],
)
def test_every_module_of_a_bundle_is_valid(
    case: str, quant: str, kv: str, checkpoints: Callable[[str], Path]
) -> None:
    found = kernels(checkpoints(case), quant, kv)
    assert len(found) > 60
    said = {name: complaints(shader(kernel).file) for name, kernel in found.items()}
    assert {name: text for name, text in said.items() if text} == {}
