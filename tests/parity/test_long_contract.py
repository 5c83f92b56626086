"""The contract of one program for sequences of hundreds of tokens, whose attention GPUs divide.

Up to 256 tokens a launch attends and joins, for more of one sequence the linear that follows joins,
up to 1,024 here, and else a launch of its own: a row has the same bits by each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.compile import compile_model
from edgewise_compiler.kernels.gpu.attention import joined
from edgewise_compiler.kernels.numbers import LONG_SEGMENTS
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import made_once, with_context
from tests.parity.driver import Driver, Stream

pytestmark = pytest.mark.landing

CONTEXT, PAGES = 1280, 320
TOKENS = [int(token) for token in np.random.default_rng(3).integers(0, 320, CONTEXT)]
LENGTHS = (1100, 300, 200, 1000)
BURST = 16
JOINED = 1024
"""Tokens up to which the linear joins, far fewer than it does of heads as few as these."""

PROGRAMS = [
    ("llama-gqa2-tied-linear", "webgpu-f32", "auto"),
    pytest.param(
        ("llama-gqa2-tied-linear", "webgpu-f16-subgroups", "int8"), marks=pytest.mark.full
    ),
    pytest.param(("llama-gqa2-tied-linear", "vulkan-f32", "auto"), marks=pytest.mark.full),
    pytest.param(("qwen3-gqa4-d96-bias", "webgpu-f32-subgroups", "auto"), marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=PROGRAMS, ids="-".join)
def program(
    request: pytest.FixtureRequest,
    shared: Path,
    checkpoints: Callable[[str], Path],
    own_data_folder: None,
) -> Iterator[LoadedProgram]:
    case, name, kv = request.param
    target = name.partition("-")[0]

    def compile_to(out: Path) -> None:
        model = with_context(checkpoints(case), out.with_name("checkpoint"), CONTEXT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joined, "JOINED_SEGMENTS", JOINED // LONG_SEGMENTS[0])
            patch.setattr(joined, "JOINED_BYTES", 0)
            compile_model(
                model, out, quant="q4", targets=(target,), kv=kv, prefill_chunk=128, max_batch=8
            )

    bundle = Bundle.open(made_once(shared / f"long-{case}-{target}-{kv}", compile_to))
    wanted = f"{name}-kv8" if kv == "int8" else name
    [compiled] = (one for one in bundle.manifest.programs if one.id == wanted)
    joins = {"b": (1, 1), "t": (1, JOINED)}
    assert joins in [entry.when for entry in compiled.entries["decode"]]
    with device_for_target(target).load(bundle, wanted, load_symbols={"pages": PAGES}) as loaded:
        yield loaded


def read(driver: Driver, stream: Stream, length: int) -> None:
    for first in range(0, length, 128):
        driver.prefill([(stream, TOKENS[first : min(first + 128, length)])])


def test_a_long_sequence_decodes_alike_alone_and_beside_others(program: LoadedProgram) -> None:
    alone = {}
    for length in LENGTHS:
        driver = Driver(program, pages=PAGES)
        stream = driver.stream()
        read(driver, stream, length)
        alone[length] = [driver.decode([(stream, TOKENS[length + i])])[1][0] for i in range(2)]
    for size in range(2, 5):
        driver = Driver(program, pages=PAGES, seed=size)
        streams = [driver.stream(i) for i in range(size)]
        for stream, length in zip(streams, LENGTHS, strict=False):
            read(driver, stream, length)
        for i in range(2):
            rows = [(s, TOKENS[n + i]) for s, n in zip(streams, LENGTHS, strict=False)]
            logits = driver.decode(rows)[1]
            for row, length in enumerate(LENGTHS[:size]):
                assert np.array_equal(logits[row], alone[length][i]), f"{size} rows, {length}"


@pytest.mark.parametrize("border", [256, JOINED])
def test_a_burst_across_a_border_is_its_single_steps(program: LoadedProgram, border: int) -> None:
    length = border - BURST // 2
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    read(driver, stream, length)
    token, single = TOKENS[length], []
    for _ in range(BURST):
        [[token]], logits = driver.decode([(stream, token)])
        single.append(token)
    driver = Driver(program, pages=PAGES, seed=1)
    stream = driver.stream()
    read(driver, stream, length)
    [tokens], last = driver.decode([(stream, TOKENS[length])], k=BURST)
    assert tokens == single
    assert np.array_equal(last, logits)


@pytest.mark.parametrize("length", [300, 1000, 1100])
def test_decode_is_near_prefill(
    program: LoadedProgram, length: int, request: pytest.FixtureRequest
) -> None:
    """As near as docs/testing.md has it: programs for GPUs add in another order there."""
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    read(driver, stream, length)
    found = driver.decode([(stream, TOKENS[length])])[1][0]
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    read(driver, stream, length)
    [expected] = driver.prefill([(stream, [TOKENS[length]])])[0]
    name = request.node.callspec.params["program"][1:]
    coarse = any("f16" in part or part == "int8" for part in name)
    off = np.abs(found - expected).max() / (expected.std() if coarse else 1.0)
    assert off < (5e-2 if coarse else 1e-3)
