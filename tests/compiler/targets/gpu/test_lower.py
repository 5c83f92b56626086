"""What WebGPU plans launch and move, without a clock; what tells checkpoints apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.fingerprint import weights_fingerprint
from edgewise_compiler.kernels.gpu.limits import LEAST, check_limits
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.options import Bounds
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.targets.gpu.language import build_program
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.webgpu.program import LANGUAGE
from edgewise_compiler.targets.webgpu.variants import variants_for
from edgewise_runtime.cost import plan_cost
from edgewise_runtime.format.manifest import Entry
from edgewise_runtime.format.plan import Plan
from tests.compiler.kernels.every_kernel import LLAMA, QWEN3, gpu_calls, gpu_program, kernels_of
from tests.compiler.targets.webgpu.programs import program_plans

Plans = dict[str, Plan]
LAYERS = 5
DEMO = Path(__file__).parents[4] / "examples/demo-model"
SAMPLING = 5
LOGPROBS = 2
NAMES = [variant.name for variant in variants_for("q4") if not variant.serial]


@pytest.fixture(scope="module")
def made() -> Callable[[str, str], Plans]:
    """The plans of a WebGPU program of the demo model over a weight scheme."""
    shaders: dict[str, Shader] = {}

    @cache
    def build(quant: str, name: str) -> Plans:
        everything = (*variants_for(quant), *variants_for(quant, "int8"))
        variant = next(v for v in everything if v.name == name)
        low, made = program_plans(DEMO, quant, variant)
        built = build_program(LANGUAGE, low, made, shaders)
        return {item.plan.name: item.plan for item in built}

    return build


@pytest.mark.parametrize("name", NAMES)
def test_decode_is_five_launches_a_layer_of_one_sequence_and_of_several(
    name: str, made: Callable[[str, str], Plans]
) -> None:
    found = {plan: len(steps.steps) for plan, steps in made("q4", name).items()}
    prefill = (12 if "a8" in name else 8) * LAYERS
    assert found == {
        "embed": 1,
        "hidden": 1,
        "prefill_few": prefill,
        "prefill": prefill,
        "logits_few": 1,
        "logits": 1,
        # The linear that follows joins what several workgroups found of a sequence.
        "decode_few": 1 + 5 * LAYERS + 1 + SAMPLING,
        "decode": 1 + 5 * LAYERS + 1 + SAMPLING,
        # Up to 256 keys one launch attends to all and joins what it found.
        "decode_near": 1 + 5 * LAYERS + 1 + SAMPLING,
        "decode_all_near": 1 + 5 * LAYERS + 1 + SAMPLING,
        "forward_few": 1 + 5 * LAYERS + 1,
        "forward": 1 + 5 * LAYERS + 1,
        "forward_near": 1 + 5 * LAYERS + 1,
        "forward_all_near": 1 + 5 * LAYERS + 1,
        "sample": SAMPLING,
        "logprobs": LOGPROBS,
    }


def test_sequences_of_a_long_context_go_in_turn_only_where_one_is_long(
    made: Callable[[str, str], Plans],
) -> None:
    """Partial results of all 64 would take 36 MB; those of 61,440 tokens of each take 16 MiB."""
    bounds = Bounds(rows=512, batch=64, context=131072)
    variant = next(v for v in variants_for("q4") if v.name == NAMES[0])
    low, plans = program_plans(DEMO, "q4", variant, bounds)
    entries, forwards = plans.entries["decode"], plans.entries["forward"]
    reach = 16 * 2**20 // (64 * 4 * 17 * 16) * 256
    assert [plan for _, plan in entries] == [
        "decode_near",
        "decode_joined",
        "decode_few",
        "decode_all_near",
        *["decode_all_joined"] * 3,
        "decode_together",
        "decode",
    ]
    assert entries[1][0] == {"b": (1, 1), "t": (1, 81664)}
    assert entries[3][0] == {"b": (1, 64), "t": (1, 256)}
    assert entries[4][0] == {"b": (1, 16), "t": (1, reach)}
    assert entries[-2][0] == {"b": (1, 64), "t": (1, reach)}
    of_forward = [(when, plan.replace("forward", "decode")) for when, plan in forwards]
    assert of_forward == list(entries)
    launches = {plan.name: len(plan.calls) for plan in plans.plans}
    assert launches["decode_joined"] == launches["decode_near"] == 1 + 5 * LAYERS + 1 + SAMPLING
    assert launches["decode_all_joined"] == launches["decode_joined"]
    assert launches["decode_few"] == launches["decode_together"] == 1 + 6 * LAYERS + 1 + SAMPLING
    assert launches["decode"] == launches["decode_few"] + 2 * LAYERS * 2  # 6, 6 and 4 of them
    assert low.bounds == bounds


def shape(hidden: int, heads: int, kv_heads: int, dim: int) -> dict[str, object]:
    sizes = {"hidden_size": hidden, "num_attention_heads": heads, "head_dim": dim}
    return {**LLAMA, **sizes, "num_key_value_heads": kv_heads, "vocab_size": 4096}


@pytest.mark.parametrize(
    ("hf", "reaches"),
    [
        pytest.param(
            shape(576, 9, 3, 64), {1: 16384, 2: 16384, 4: 12288, 8: 5888}, id="SmolLM2-135M"
        ),
        pytest.param(shape(1024, 16, 8, 128), {1: 8192, 2: 3584, 4: 1536, 8: 512}, id="Qwen3-0.6B"),
        pytest.param(shape(2048, 32, 8, 64), {1: 8192, 2: 3328, 4: 1024}, id="Llama-3.2-1B"),
        # Launches are little beside what it computes.
        pytest.param(shape(4096, 32, 8, 128), {1: 4096, 2: 256}, id="Llama-3.1-8B"),
    ],
)
def test_the_fewer_sequences_the_longer_they_are_while_a_layer_is_five_launches(
    hf: dict[str, object], reaches: dict[int, int]
) -> None:
    bounds = Bounds(rows=16, batch=8, context=16384)
    variant = next(v for v in variants_for("q4") if not (v.subgroups or v.serial))
    program = gpu_program(hf, bounds, "q4", variant)
    launches = {plan.name: len(plan.calls) for plan in program.plans}

    def of_layer(b: int, t: int) -> int:
        choices = (Entry(*choice) for choice in program.entries["forward"])
        fitting = (entry.plan for entry in choices if entry.fits({"b": b, "t": t}))
        return launches[next(fitting)] - 2

    for sequences, tokens in reaches.items():
        assert of_layer(sequences, tokens) == 5
        if tokens < bounds.context:
            assert of_layer(sequences, tokens + 1) == 6


@pytest.mark.parametrize(("heads", "joined"), [(32, True), (128, False)])
def test_a_linear_joins_the_segments_of_as_many_heads_as_it_has_room_for(
    heads: int, joined: bool
) -> None:
    hf = {**QWEN3, "num_attention_heads": heads, "num_key_value_heads": 8, "head_dim": 96}
    variant = next(v for v in variants_for("q4") if not (v.subgroups or v.serial))
    calls = list(gpu_calls(hf, Bounds(rows=16, batch=2, context=4096), "q4", variant))
    for function in kernels_of(iter(calls)).values():
        check_limits(function, LEAST)
    assert any("_joined_" in name for name in kernels_of(iter(calls))) is joined


def test_serial_programs_launch_their_norms_and_have_one_prefill(
    made: Callable[[str, str], Plans],
) -> None:
    found = {p: len(s.steps) for p, s in made("q4", "webgpu-f32-serial").items()}
    decode = 1 + 8 * LAYERS + 2 + SAMPLING
    assert found == {
        "embed": 1,
        "hidden": 1,
        "prefill": 8 * LAYERS,
        "logits_few": 2,
        "logits": 2,
        "decode_few": decode,
        "decode": decode,
        "forward_few": decode - SAMPLING,
        "forward": decode - SAMPLING,
        "sample": SAMPLING,
        "logprobs": LOGPROBS,
    }


@pytest.mark.quick(cases=2)
@pytest.mark.parametrize(
    ("quant", "weights"),
    [
        ("f32", 16.0e6),
        ("f16", 8.0e6),
        ("q8", 4.3e6),
        ("q6", 3.3e6),
        ("q5", 2.8e6),
        ("q4", 2.3e6),
        ("q4k", 2.3e6),
    ],
)
def test_a_decode_step_moves_little_more_than_the_weights(
    quant: str, weights: float, made: Callable[[str, str], Plans]
) -> None:
    symbols = {"n": 1, "b": 1, "r": 1, "t": 1, "kv": 0}
    cost = plan_cost(made(quant, "webgpu-f16")["decode_few"], symbols)
    assert weights * 0.95 < cost.bytes < weights * 1.1


def test_sampling_goes_over_the_vocabulary_once(made: Callable[[str, str], Plans]) -> None:
    cost = plan_cost(made("q4", "webgpu-f32")["sample"], {"n": 1, "b": 1, "r": 1, "t": 1, "kv": 0})
    # Logits are read and keys written; the largest of groups of 8, an eighth, are written, and
    # read three times.
    logits = 4096 * 4
    assert 2 * logits < cost.bytes < 2.6 * logits


def test_codes_halve_what_attention_reads_of_float16(made: Callable[[str, str], Plans]) -> None:
    def kv_bytes(name: str) -> int:
        plan, at = made("q4", name)["decode_few"], {"n": 1, "b": 1, "r": 1, "t": 1}
        some, none = (plan_cost(plan, at | {"kv": kv}).bytes for kv in (1000, 0))
        return some - none

    half, codes = kv_bytes("webgpu-f16"), kv_bytes("webgpu-f16-kv8")
    # Keys and values of two heads of 64, and of int8 a word of scales for each head.
    assert half == 1000 * LAYERS * 2 * 2 * 64 * 2
    assert codes == half // 2 + 1000 * LAYERS * 2 * 4


@pytest.mark.parametrize(
    ("quant", "name", "kept", "seen"),
    [
        ("q4", "webgpu-f16", "float16", "float16"),
        ("q4", "webgpu-f32", "float16", "float16x2"),
        ("q4", "webgpu-f32-serial", "float16", "float16x2"),
        ("q4", "webgpu-f32-kv8", "int8", "int8"),
        ("f32", "webgpu-f16", "float16", "float16"),
        ("f32", "webgpu-f32", "float32", "float32"),
        ("f16", "webgpu-f32-serial", "float32", "float32"),
    ],
)
def test_pages_are_float16_but_where_weights_and_arithmetic_are_wider(
    quant: str, name: str, kept: str, seen: str, made: Callable[[str, str], Plans]
) -> None:
    for plan in (made(quant, name)["prefill"], made(quant, name)["decode"]):
        (found,) = {buffer.dtype for buffer in plan.buffers if buffer.name.startswith("kv.")}
        assert found == kept
        attention = [kernel for kernel in plan.kernels if kernel.startswith("attention_")]
        assert any(f"_{seen}_" in kernel for kernel in attention), attention


def test_grids_follow_rows_sequences_and_history(made: Callable[[str, str], Plans]) -> None:
    symbols = {
        name for step in made("q4", "webgpu-f32")["decode"].steps for name in _symbols(step.grid)
    }
    assert symbols == {"n", "b", "r", "t"}


def test_plans_read_back_as_they_were_written(made: Callable[[str, str], Plans]) -> None:
    for plan in made("q4", "webgpu-f16-subgroups").values():
        assert Plan.from_json(plan.to_json()) == plan


def test_no_buffer_is_bound_twice_in_a_launch(made: Callable[[str, str], Plans]) -> None:
    for plan in made("q4", "webgpu-a8").values():
        for step in plan.steps:
            names = [binding.buffer for binding in step.bindings]
            assert len(set(names)) == len(names), step.label


def test_fingerprints_tell_weights_and_schemes_apart(
    checkpoints: Callable[[str], Path],
) -> None:
    found = []
    for case, quant in (("llama-mha", "q4"), ("llama-mha", "q8"), ("qwen3-gqa2-tied", "q4")):
        with open_checkpoint(checkpoints(case)) as checkpoint:
            params = checkpoint.family.params(checkpoint.model)
            schemes = linear_schemes(find_preset(quant), params)
            found.append(weights_fingerprint(checkpoint, schemes))
            assert weights_fingerprint(checkpoint, schemes) == found[-1]
    assert len(set(found)) == 3


def _symbols(grid: tuple[object, ...]) -> set[str]:
    found: set[str] = set()
    for extent in grid:
        if isinstance(extent, str) and extent not in ("add", "mul", "ceildiv", "min", "max"):
            found.add(extent)
        elif isinstance(extent, tuple):
            found |= _symbols(extent)
    return found


@pytest.mark.parametrize(
    ("quant", "vocab", "tables", "heads"),
    [
        ("q8", 16_384, 1, 1),
        ("q8", 128_256, 2, 4),
        ("f16", 128_256, 2, 8),
        ("balanced", 16_384, 1, 1),
        ("balanced", 32_768, 1, 2),
        ("balanced", 128_256, 2, 4),
    ],
)
def test_a_table_in_parts_is_read_by_as_few_launches_as_have_buffers_for_it(
    quant: str, vocab: int, tables: int, heads: int
) -> None:
    """Rows of 4,096 columns, of which `balanced` has the first 16,384 in a part by themselves."""
    variant = next(v for v in variants_for("q4") if v.name == "webgpu-f32")
    hf = {**LLAMA, "vocab_size": vocab}
    calls = [*gpu_calls(hf, Bounds(rows=64, batch=2, context=64), quant, variant)]
    kernels = kernels_of(iter(calls)).values()
    looked_up = {name for name in kernels_of(iter(calls)) if name.startswith("embed_")}
    assert len(looked_up) == tables
    assert {c.label for c in calls if c.label.startswith("lm_head")} == {
        "lm_head",
        *(f"lm_head.{i}" for i in range(heads - 1)),
    }
    for kernel in kernels:
        check_limits(kernel, LEAST)
