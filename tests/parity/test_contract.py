"""The bitwise contract: a row's numbers depend on the row alone.

Chunked equals whole, batched equals alone, a burst equals single steps; for integer arithmetic
and for serial programs decode equals prefill, and every instruction set equals every other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.isa import ISAS
from edgewise_compiler.targets.vulkan.variants import VARIANTS as VULKAN_VARIANTS
from edgewise_compiler.targets.webgpu.variants import VARIANTS
from edgewise_runtime.cpuid import cpu_features
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from tests.parity.driver import Driver, Floats
from tests.parity.sampled import sampled

pytestmark = pytest.mark.sampled(one_in=18)

CASE, EXPERTS, SINKS = "qwen3-gqa2-tied", "qwen3moe-step", "gptoss-window"
MIXTURES = (EXPERTS, SINKS)
"""The second has sinks, and windows, which make two state groups of its layers."""

QUANTS = ("f32", "q8", "q6", "q4", "fours", "fives")
INTEGER = ("q8", "q6", "q4", "fours", "fives")
PATHS = tuple(isa.name for isa in ISAS.values() if cpu_features().issuperset(isa.features))
PROMPT = [int(token) for token in np.random.default_rng(7).integers(0, 320, 70)]
PAGES_PER_SEQUENCE = 16
PAGES = 16 * PAGES_PER_SEQUENCE


class Which(NamedTuple):
    """One program of one bundle; ``cuts`` are the places to cut the prompt at."""

    quant: str
    program: str
    cuts: tuple[int, ...]
    kv: str = "auto"
    case: str = CASE


# A software GPU takes its time: it gets the cuts around tiles, pages and segments.
SOME_CUTS = (1, 2, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 69)
ALL_CUTS = tuple(range(1, len(PROMPT)))
CPU_PROGRAMS = [
    *(Which(q, path, ALL_CUTS) for q in QUANTS for path in PATHS),
    *(Which("q4", path, ALL_CUTS, "int8") for path in PATHS),
    Which("f32", PATHS[0], ALL_CUTS, "int8"),
    *(Which("q4", path, SOME_CUTS, case=case) for case in MIXTURES for path in PATHS),
    *(Which("f32", PATHS[0], SOME_CUTS, case=case) for case in MIXTURES),
]
GPU_MIXTURES = [
    *(Which("q4", variant.name, SOME_CUTS) for variant in (*VARIANTS, *VULKAN_VARIANTS)),
    Which("q4", "webgpu-a8-subgroups", SOME_CUTS),
    Which("q4", "vulkan-a8-subgroups", SOME_CUTS),
    Which("f32", "webgpu-f32", SOME_CUTS),
]
GPU_PROGRAMS = [Which("q4", variant.name, SOME_CUTS) for variant in VARIANTS] + [
    Which("f32", "webgpu-f32", SOME_CUTS),
    Which("q8", "webgpu-f16-subgroups", SOME_CUTS),
    Which("q6", "webgpu-f32-subgroups", SOME_CUTS),
    Which("fives", "webgpu-f32-serial", SOME_CUTS),
    Which("f16", "webgpu-f16", SOME_CUTS),
    Which("fives", "webgpu-f16-subgroups", SOME_CUTS),
    *(Which("fours", variant.name, SOME_CUTS) for variant in VARIANTS),
    Which("q4", "webgpu-a8-subgroups", SOME_CUTS),
    Which("q4", "webgpu-f16-subgroups", SOME_CUTS, "int8"),
    Which("q4", "webgpu-f32-serial", SOME_CUTS, "int8"),
    *(Which("q4", variant.name, SOME_CUTS) for variant in VULKAN_VARIANTS),
    Which("f32", "vulkan-f32", SOME_CUTS),
    Which("q8", "vulkan-f16-subgroups", SOME_CUTS),
    Which("fives", "vulkan-f32-serial", SOME_CUTS),
    Which("fours", "vulkan-f32-subgroups", SOME_CUTS),
    Which("q4", "vulkan-a8-subgroups", SOME_CUTS),
    Which("q4", "vulkan-f16-subgroups", SOME_CUTS, "int8"),
    *(which._replace(case=case) for case in MIXTURES for which in GPU_MIXTURES),
]
# Where the landing suite, too, tests every instruction set; elsewhere it tests the best one.
EVERY_PATH = [("f32", "auto"), ("q4", "auto")]
QUICK_MIXTURES = [
    (EXPERTS, "q4", PATHS[0]),
    (EXPERTS, "q4", "webgpu-f32-subgroups"),
    (SINKS, "q4", PATHS[0]),
    (SINKS, "f32", "webgpu-f32"),
]


def is_quick(quant: str, program: str, kv: str) -> bool:
    """Of WebGPU's programs, those that unpack weights are, and of Vulkan's, which have the same
    kernels, one."""
    if program.startswith("vulkan"):
        return (quant, program, kv) == ("q4", "vulkan-f32-subgroups", "auto")
    if program.startswith("webgpu"):
        return quant == "q4"
    return program == PATHS[0] or (quant, kv) in EVERY_PATH


PROGRAMS = [*CPU_PROGRAMS, *GPU_PROGRAMS]
AGREEING = [
    *((quant, path, "auto") for quant in INTEGER for path in PATHS),
    *(("q4", path, "int8") for path in PATHS),
    ("q4", "webgpu-f32-serial", "auto"),
    ("q4", "webgpu-f32-serial", "int8"),
    ("q4", "vulkan-f32-serial", "auto"),
]


@pytest.fixture(
    params=sampled(
        PROGRAMS,
        [
            w
            for w in PROGRAMS
            if (w.case == CASE and is_quick(w.quant, w.program, w.kv))
            or (w.case, w.quant, w.program) in QUICK_MIXTURES
        ],
        name=lambda w: f"{w.quant}-{w.program}-{w.kv}" + ("" if w.case == CASE else f"-{w.case}"),
    )
)
def which(request: pytest.FixtureRequest) -> Which:
    chosen: Which = request.param
    return chosen


@pytest.fixture
def program(which: Which, bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with load(bundles, which.quant, which.program, which.kv, which.case) as loaded:
        yield loaded


def load(
    bundles: BundleFactory, quant: str, path: str, kv: str = "auto", case: str = CASE
) -> LoadedProgram:
    symbols = {"pages": PAGES}
    target = path.partition("-")[0]
    if target in ("webgpu", "vulkan"):
        name = f"{path}-kv8" if kv == "int8" else path
        bundle = Bundle.open(bundles(case, quant, targets=(target,), kv=kv))
        return device_for_target(target).load(bundle, name, load_symbols=symbols)
    # A library for each instruction set: those that are not tested need not be compiled.
    bundle = Bundle.open(bundles(case, quant, path, kv=kv))
    return CpuDevice(threads=2).load(bundle, load_symbols=symbols)


def whole(program: LoadedProgram) -> Floats:
    driver = Driver(program, pages=PAGES)
    return driver.prefill([(driver.stream(), PROMPT)])[0]


@pytest.mark.quick(cases=1)
def test_every_cut_of_a_prompt_gives_the_same_logits(which: Which, program: LoadedProgram) -> None:
    expected = whole(program)
    for cut in which.cuts:
        driver = Driver(program, pages=PAGES, seed=cut)
        stream = driver.stream()
        first = driver.prefill([(stream, PROMPT[:cut])])[0]
        second = driver.prefill([(stream, PROMPT[cut:])])[0]
        assert np.array_equal(np.concatenate([first, second]), expected), f"cut at {cut}"


@pytest.mark.landing
def test_prompts_prefilled_together_get_the_logits_they_get_alone(program: LoadedProgram) -> None:
    lengths = (1, 17, 33, 5, 64)
    driver = Driver(program, pages=PAGES)
    alone = [driver.prefill([(driver.stream(), PROMPT[:n])])[0] for n in lengths]
    driver = Driver(program, pages=PAGES, seed=1)
    together = driver.prefill([(driver.stream(i), PROMPT[:n]) for i, n in enumerate(lengths)])
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.quick(cases=1)
def test_a_sequence_decodes_alike_alone_and_in_any_batch(program: LoadedProgram) -> None:
    lengths = (3, 16, 40, 63, 64, 65, 20, 1)
    alone = {}
    for n in lengths:
        driver = Driver(program, pages=PAGES)
        stream = driver.stream()
        driver.prefill([(stream, PROMPT[:n])])
        alone[n] = [driver.decode([(stream, PROMPT[n])])[1][0] for _ in range(3)]
    for size in range(1, 9):
        driver = Driver(program, pages=PAGES, seed=size)
        streams = [driver.stream(i) for i in range(size)]
        for stream, n in zip(streams, lengths, strict=False):
            driver.prefill([(stream, PROMPT[:n])])
        for step in range(3):
            rows = [(s, PROMPT[n]) for s, n in zip(streams, lengths, strict=False)]
            logits = driver.decode(rows)[1]
            for row, n in enumerate(lengths[:size]):
                assert np.array_equal(logits[row], alone[n][step]), f"batch {size}, length {n}"


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("burst", [2, 3, 8, 16])
def test_a_burst_is_its_single_steps(program: LoadedProgram, burst: int) -> None:
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    driver.prefill([(stream, PROMPT[:30])])
    token, single = PROMPT[30], []
    for _ in range(burst):
        [[token]], logits = driver.decode([(stream, token)])
        single.append(token)
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    driver.prefill([(stream, PROMPT[:30])])
    [tokens], last = driver.decode([(stream, PROMPT[30])], k=burst)
    assert tokens == single
    assert np.array_equal(last, logits)
    assert stream.kv_len == 30 + burst


def test_a_burst_stops_at_its_limit_and_leaves_the_other_rows_running(
    program: LoadedProgram,
) -> None:
    driver = Driver(program, pages=PAGES)
    streams = [driver.stream(i) for i in range(2)]
    for stream in streams:
        driver.prefill([(stream, PROMPT[:10])])
    rows = [(stream, PROMPT[10]) for stream in streams]
    tokens, _ = driver.decode(rows, k=8, limits=(13, 1 << 20))
    assert [len(found) for found in tokens] == [3, 8]
    assert tokens[1][:3] == tokens[0]


@pytest.mark.landing
@pytest.mark.parametrize("size", [1, 3, 8])
def test_logits_first_and_the_draw_after_them_are_a_step_of_decode(
    program: LoadedProgram, size: int
) -> None:
    params = SamplingParams(temperature=1.5, top_p=0.95)
    lengths = (40, 63, 64, 5, 20, 1, 16, 31)[:size]
    found = []
    for apart in (False, True):
        driver = Driver(program, pages=PAGES, seed=size)
        streams = [driver.stream(i) for i in range(size)]
        for stream, n in zip(streams, lengths, strict=True):
            driver.prefill([(stream, PROMPT[:n])])
        rows = [(s, PROMPT[n]) for s, n in zip(streams, lengths, strict=True)]
        said = []
        for _ in range(3):
            if apart:
                tokens, logits = driver.forward(rows, params)
            else:
                drawn, logits = driver.decode(rows, params=params)
                tokens = [token for [token] in drawn]
            rows = [(s, token) for (s, _), token in zip(rows, tokens, strict=True)]
            said.append((tokens, logits.tobytes()))
        found.append(said)
    assert found[0] == found[1]


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize(
    ("quant", "name", "kv"), sampled(AGREEING, [each for each in AGREEING if is_quick(*each)])
)
def test_decode_gives_the_logits_that_prefill_gives(
    quant: str, name: str, kv: str, bundles: BundleFactory
) -> None:
    with load(bundles, quant, name, kv) as program:
        assert_decode_is_prefill(program)


def assert_decode_is_prefill(program: LoadedProgram) -> None:
    expected = whole(program)
    driver = Driver(program, pages=PAGES, seed=3)
    stream = driver.stream()
    for position, token in enumerate(PROMPT):
        logits = driver.decode([(stream, token)])[1]
        assert np.array_equal(logits[0], expected[position]), f"position {position}"


SERIAL = ("webgpu-f32-serial", "vulkan-f32-serial")


@pytest.mark.landing
@pytest.mark.parametrize(
    ("case", "name"),
    sampled(product(MIXTURES, (*PATHS, *SERIAL)), [(case, PATHS[0]) for case in MIXTURES]),
)
def test_decode_through_experts_gives_the_logits_that_prefill_gives(
    case: str, name: str, bundles: BundleFactory
) -> None:
    with load(bundles, "q4", name, case=case) as program:
        assert_decode_is_prefill(program)


@pytest.mark.landing
@pytest.mark.parametrize(
    ("quant", "kv", "case"),
    sampled(
        [
            *((quant, "auto", CASE) for quant in QUANTS),
            ("q4", "int8", CASE),
            *((quant, "auto", case) for case in MIXTURES for quant in ("f32", "q4")),
        ],
        [(*each, CASE) for each in EVERY_PATH],
    ),
)
def test_instruction_sets_give_the_same_logits(
    quant: str, kv: str, case: str, bundles: BundleFactory
) -> None:
    found = []
    for path in PATHS:
        with load(bundles, quant, path, kv, case) as program:
            found.append(whole(program))
    assert len(found) == len(PATHS)
    for path, logits in zip(PATHS, found, strict=True):
        assert np.array_equal(logits, found[0]), f"{path} against {PATHS[0]}"
