"""Programs with mixtures of experts: what they read of experts, and into which launches they go."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from edgewise_compiler.layouts.rows import MAX_BINDING, linear_parts
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.models.families import find_family
from edgewise_compiler.options import Bounds
from edgewise_compiler.plan.calls import Call
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.targets.webgpu.variants import INT8_VARIANTS, VARIANTS
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.expr import evaluate
from tests.compiler.kernels.every_kernel import LLAMA, cpu_calls, gpu_calls

EXPERTS, CHOSEN = 128, 8
HF = {
    **LLAMA,
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 2048,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
    "num_experts": EXPERTS,
    "num_experts_per_tok": CHOSEN,
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
}
"""A layer of Qwen3-30B-A3B."""

BOUNDS = Bounds(512, 8, 4096)
ONE = 3 * 2048 * 768 * 9 // 16
"""Bytes of an expert in q4: half a byte a weight, and a float16 for 32."""

VARIANTS_OF_Q4 = {variant.name: variant for variant in (*VARIANTS, *INT8_VARIANTS)}


def read(calls: Iterable[Call], rows: int) -> int:
    """Bytes of experts' weights by the cost of the calls, for so many rows: the rest is theirs."""
    found = 0
    for call in calls:
        weights = {a.tensor.name for a in call.arguments if a.tensor.role == "param"}
        if any(".experts." in name for name in weights):
            found += evaluate(call.bytes, {"n": rows, "b": rows, "r": rows, "kv": 0})
    return found


def test_a_step_of_one_row_reads_the_experts_that_it_goes_through() -> None:
    calls = {call.label: call for call in cpu_calls(HF, BOUNDS, "q4", "avx512vnni")}
    one, many, all_of = (read(calls.values(), rows) for rows in (1, 3, 512))
    assert CHOSEN * ONE <= one < CHOSEN * ONE * 1.05
    assert 3 * CHOSEN * ONE <= many < 3 * CHOSEN * ONE * 1.05
    activations = 512 * (one - CHOSEN * ONE)
    assert all_of == EXPERTS * ONE + activations


@pytest.mark.parametrize("name", VARIANTS_OF_Q4)
def test_gpus_read_no_other_experts_either(name: str) -> None:
    calls = list(gpu_calls(HF, BOUNDS, "q4", VARIANTS_OF_Q4[name]))
    decoding = {c.label: c for c in calls if "tiles" not in str(c.kernel.attrs["global_symbol"])}
    parts = {label for label in decoding if ".experts." in label}
    assert parts == {
        "layers.0.experts.gate_up",
        "layers.0.experts.gate_up.0",
        "layers.0.experts.down",
    }
    # A step's rows may go through the experts of any part: each is charged for all of them.
    down = decoding["layers.0.experts.down"]
    moved = evaluate(down.bytes, {"n": 1, "b": 1, "r": 1, "kv": 0})
    assert CHOSEN * ONE // 3 <= moved < CHOSEN * ONE // 3 * 1.1


def test_experts_stay_whole_where_a_linear_is_cut() -> None:
    family = find_family(HF)
    params = family.params(family.read_config(HF))
    schemes = linear_schemes(find_preset("q4"), params)
    spec = next(p for p in params if p.name == "layers.0.experts.gate_up")
    assert isinstance(spec, LinearSpec)
    parts = linear_parts(schemes[spec.name], spec)
    assert [part.rows % (2 * 768) for part in parts] == [0, 0]
    assert sum(part.rows for part in parts) == EXPERTS * 2 * 768


def test_an_expert_that_no_binding_holds_is_refused() -> None:
    family = find_family(HF)
    params = family.params(family.read_config(HF | {"moe_intermediate_size": 16384}))
    spec = next(p for p in params if p.name == "layers.0.experts.gate_up")
    assert isinstance(spec, LinearSpec)
    assert spec.k * 2 * 16384 * 4 > MAX_BINDING
    with pytest.raises(UnsupportedError, match=r"An expert of layers\.0\.experts\.gate_up"):
        linear_parts(find_preset("f32").default, spec)


@pytest.mark.parametrize("isa", ["avx2", "portable"])
def test_every_index_of_a_large_mixture_is_known_to_fit(isa: str) -> None:
    assert list(cpu_calls(HF, BOUNDS, "f16", isa))
