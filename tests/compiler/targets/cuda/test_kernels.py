"""Which kernels the programs of CUDA have for a prompt."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_compiler.options import Bounds
from edgewise_compiler.targets.cuda.limits import LIMITS
from edgewise_compiler.targets.cuda.variants import variants_for
from tests.compiler.kernels.every_kernel import LLAMA, gpu_calls, kernels_of

BOUNDS = Bounds(rows=64, batch=2, context=256)


def attention(program: str, kv: str = "auto", **changed: Any) -> set[str]:
    """The kernels that attend for the rows of a prompt."""
    variant = next(v for v in variants_for("q4", kv) if v.name == program)
    kernels = kernels_of(gpu_calls({**LLAMA, **changed}, BOUNDS, "q4", variant, LIMITS))
    kinds = {"_".join(name.split("_")[:2]) for name in kernels}
    return kinds & {"attention_prefill", "attention_tensor"}


def test_float16_attends_to_prompts_by_tensor_cores() -> None:
    assert attention("cuda-f16") == {"attention_tensor"}


@pytest.mark.parametrize("program", ["cuda-f32", "cuda-a8"])
def test_other_arithmetic_does_not(program: str) -> None:
    assert attention(program) == {"attention_prefill"}


@pytest.mark.parametrize(
    ("program", "kv", "changed"),
    [
        ("cuda-f16-kv8", "int8", {}),
        ("cuda-f16", "auto", {"head_dim": 256}),
        ("cuda-f16", "auto", {"head_dim": 80}),
    ],
    ids=["codes", "wide heads", "narrow heads"],
)
def test_what_the_kernel_has_not_is_the_general_ones(
    program: str, kv: str, changed: dict[str, Any]
) -> None:
    assert attention(program, kv, **changed) == {"attention_prefill"}
