"""Models with windows through the engine: what is left of their pages is enough, to the bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import footprint
from edgewise_runtime.kv.holding import GONE
from tests.conftest import BundleFactory
from tests.runtime.engine.bits import REQUESTS, TOP, alone, answers, engine_of, request, said, text

# Each of these models is compiled for seconds, for none but these tests.
pytestmark = pytest.mark.quick(cases=0)

PAGES = 200
LONG = request(text(21, 190), 40, temperature=0.0, **TOP)
"""Beyond the windows of all of these models many times."""

MIXED = [*REQUESTS[:5], LONG]


SERIAL = "webgpu-f32-serial"
"""The GPU's program whose decode gives the bits of its prefill, as integers do on the CPU."""


@pytest.fixture(
    scope="module",
    params=[
        ("mistral-window", None),
        ("gemma2-window", None),
        ("gptoss-window", None),
        pytest.param(("gemma3-window", None), marks=pytest.mark.full),
        pytest.param(("gptoss-window", SERIAL), marks=pytest.mark.full),
    ],
    ids=lambda param: "-".join(filter(None, param)),
)
def program(request: pytest.FixtureRequest, bundles: BundleFactory) -> Iterator[LoadedProgram]:
    case, gpu = request.param
    bundle = Bundle.open(bundles(case, "q4", targets=("webgpu" if gpu else "cpu",)))
    device = WgpuDevice() if gpu else CpuDevice(threads=2)
    with device.load(bundle, gpu, load_symbols={"pages": PAGES}) as loaded:
        assert loaded.program.decode_agrees
        yield loaded


def test_batches_and_chunks_do_not_matter(program: LoadedProgram) -> None:
    cold = [alone(program, asked) for asked in MIXED]
    assert answers(engine_of(program, PAGES), MIXED) == cold
    batch = program.bundle.model.max_batch
    assert answers(engine_of(program, PAGES, step_tokens=batch + 5), MIXED) == cold


@pytest.mark.quick(cases=1)
def test_a_prefix_is_found_where_its_window_is_there(program: LoadedProgram) -> None:
    engine = engine_of(program, PAGES)
    first, again, other = (engine.sequence(LONG) for _ in range(3))
    for sequence in (first, again):
        for _ in engine.run([sequence]):
            pass
    # Those behind the window were given back, and are found again as long as nobody needs them.
    half = request((*text(21, 190)[:100], *text(22, 30)), 10, temperature=0.0, **TOP)
    [branched] = answers(engine, [half])
    assert said([first, again]) == [alone(program, LONG)] * 2
    assert again.cached_tokens == 189
    assert branched == alone(program, half)
    engine.forget()
    for _ in engine.run([other]):
        pass
    assert other.cached_tokens == 0


def test_a_prefix_whose_window_has_gone_is_computed_again(program: LoadedProgram) -> None:
    """Pages are kept for nobody but those that go on where the first has ended."""
    sizes = footprint(program.bundle.manifest)
    engine = engine_of(program, PAGES, kept_bytes=sizes.pages(230) * program.page_bytes)
    answers(engine, [LONG])
    shorter = request(text(21, 190)[:60], 10, temperature=0.0, **TOP)
    longer = request((*text(21, 190), *alone(program, LONG).tokens[:39], 9), 5, temperature=0.0)
    sequence = engine.sequence(longer)
    for _ in engine.run([sequence]):
        pass
    assert sequence.cached_tokens >= 224
    assert said([sequence]) == [alone(program, longer)]
    assert answers(engine, [shorter]) == [alone(program, shorter)]


def test_choices_share_a_prompt_longer_than_the_window(program: LoadedProgram) -> None:
    asked = request(text(23, 150), 30, temperature=0.9, seed=5, n=3)
    engine = engine_of(program, PAGES)
    sequences = engine.sequences(asked)
    for _ in engine.run(sequences):
        pass
    assert engine.check() == []
    for sequence in sequences:
        other = engine_of(program, PAGES)
        again = other.sequences(asked)[sequence.index]
        again.leader = None
        for _ in other.run([again]):
            pass
        assert again.tokens == sequence.tokens


def test_whoever_is_interrupted_goes_on_the_same(program: LoadedProgram) -> None:
    engine = engine_of(program, PAGES)
    sequences = [engine.sequence(asked) for asked in MIXED]
    engine.submit(sequences)
    for nth in range(400):
        engine.step()
        assert engine.check() == []
        running = engine._scheduler.running
        if nth % 9 == 8 and running:
            engine._scheduler.preempt(running[nth % len(running)])
        if not engine.busy:
            break
    assert said(sequences) == [alone(program, asked) for asked in MIXED]


@pytest.mark.quick(cases=1)
def test_pages_are_as_many_as_the_window_covers(program: LoadedProgram) -> None:
    engine = engine_of(program, PAGES)
    sizes = footprint(program.bundle.manifest)
    sequence = engine.sequence(request(text(24, 20), 220, temperature=0.0))
    engine.submit([sequence])
    while engine.busy:
        engine.step()
        if sequence.holding is None:
            continue
        for row, window in zip(sequence.holding.rows, sizes.windows, strict=True):
            held = sum(page != GONE for page in row)
            if window is not None and sequence.computed > 30:
                # A burst of 64 tokens at most, and a page at either end.
                assert held <= (window + 64) // 16 + 2
    assert sequence.finish_reason == "length"
    assert engine._memory.held == 0


def test_a_context_that_all_pages_could_not_hold_fits(program: LoadedProgram) -> None:
    sizes = footprint(program.bundle.manifest)
    pages = sizes.pages(256)
    engine = engine_of(program, pages)
    assert engine.context == 256
    assert pages < len(sizes.windows) * 256 // 16
    assert answers(engine, [LONG]) == [alone(program, LONG)]


def test_all_logits_are_scored_in_as_few_pages(program: LoadedProgram) -> None:
    engine = engine_of(program, footprint(program.bundle.manifest).pages(256))
    tokens = text(25, 250)
    whole = engine.score(tokens)
    assert (engine.score(tokens[:130]) == whole[:130]).all()
