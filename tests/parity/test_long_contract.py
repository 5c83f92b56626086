"""The contract of one program for sequences of hundreds of tokens, whose attention GPUs divide.

Up to 256 tokens a launch attends and joins, for more the linear that follows joins, up to 1,024 of
three sequences here, and else a launch of its own: a row has the same bits by each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.compile import compile_model
from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.joined import Joining
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import made_once, with_context
from tests.parity.driver import Driver, Stream

pytestmark = pytest.mark.landing

CONTEXT, PAGES = 1280, 320
TOKENS = [int(token) for token in np.random.default_rng(3).integers(0, 320, CONTEXT)]
LENGTHS = [(1100, 300, 200, 1000), (1000, 300, 600, 200)]
BURST = 16
JOINED, TOGETHER = 1024, 3
"""Tokens up to which the linear joins, and of how many sequences: far fewer than it does of heads
as few as these."""

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
            patch.setattr(Joining, "segments", few_segments)
            compile_model(
                model, out, quant="q4", targets=(target,), kv=kv, prefill_chunk=128, max_batch=8
            )

    bundle = Bundle.open(made_once(shared / f"long-{case}-{target}-{kv}", compile_to))
    wanted = f"{name}-kv8" if kv == "int8" else name
    [compiled] = (one for one in bundle.manifest.programs if one.id == wanted)
    found = [entry.when for entry in compiled.entries["decode"]]
    for sequences in (1, TOGETHER):
        assert {"b": (1, sequences), "t": (1, JOINED)} in found
    with device_for_target(target).load(bundle, wanted, load_symbols={"pages": PAGES}) as loaded:
        yield loaded


def few_segments(joining: Joining, spec: AttentionSpec, sequences: int = 1) -> int:
    """In place of `Joining.segments`."""
    return JOINED // spec.segment if sequences <= TOGETHER else 0


def read(driver: Driver, stream: Stream, length: int) -> None:
    for first in range(0, length, 128):
        driver.prefill([(stream, TOKENS[first : min(first + 128, length)])])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_a_long_sequence_decodes_alike_alone_and_beside_others(
    lengths: tuple[int, ...], program: LoadedProgram
) -> None:
    alone = {}
    for length in lengths:
        driver = Driver(program, pages=PAGES)
        stream = driver.stream()
        read(driver, stream, length)
        alone[length] = [driver.decode([(stream, TOKENS[length + i])])[1][0] for i in range(2)]
    for size in range(2, 5):
        driver = Driver(program, pages=PAGES, seed=size)
        streams = [driver.stream(i) for i in range(size)]
        for stream, length in zip(streams, lengths, strict=False):
            read(driver, stream, length)
        for i in range(2):
            rows = [(s, TOKENS[n + i]) for s, n in zip(streams, lengths, strict=False)]
            logits = driver.decode(rows)[1]
            for row, length in enumerate(lengths[:size]):
                assert np.array_equal(logits[row], alone[length][i]), f"{size} rows, {length}"


@pytest.mark.parametrize("others", [(), (300, 40)], ids=str)
@pytest.mark.parametrize("border", [256, JOINED])
def test_a_burst_across_a_border_is_its_single_steps(
    border: int, others: tuple[int, ...], program: LoadedProgram
) -> None:
    lengths = (border - BURST // 2, *others)

    def begun(seed: int) -> tuple[Driver, list[Stream]]:
        driver = Driver(program, pages=PAGES, seed=seed)
        streams = [driver.stream(i) for i in range(len(lengths))]
        for stream, length in zip(streams, lengths, strict=True):
            read(driver, stream, length)
        return driver, streams

    driver, streams = begun(0)
    last = [TOKENS[length] for length in lengths]
    single: list[list[int]] = [[] for _ in streams]
    for _ in range(BURST):
        found, logits = driver.decode([*zip(streams, last, strict=True)])
        last = [tokens[0] for tokens in found]
        for tokens, token in zip(single, last, strict=True):
            tokens.append(token)
    driver, streams = begun(1)
    rows = [(stream, TOKENS[length]) for stream, length in zip(streams, lengths, strict=True)]
    burst, after = driver.decode(rows, k=BURST)
    assert burst == single
    assert np.array_equal(after, logits)


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
