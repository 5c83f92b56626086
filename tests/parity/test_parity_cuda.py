"""CUDA programs on the emulated driver: against transformers, the CPU and themselves.

No NVIDIA GPU takes part. The fatbins are NVRTC's, and loaded as on a GPU; what their kernels
compute comes from the same CUDA C on this processor (tests/gpu_emulator).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise.cli.main import main
from edgewise_runtime.devices.cuda import gpu
from edgewise_runtime.devices.cuda.device import CudaDevice, CudaProgram
from edgewise_runtime.devices.cuda.driver import DRIVER
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.fatbin import read_images, read_uses
from tests.conftest import BundleFactory
from tests.gpu_emulator import programs
from tests.gpu_emulator.driver import emulated
from tests.parity import make_goldens, reference
from tests.parity.driver import Driver
from tests.parity.test_contract import PAGES, PROMPT
from tests.parity.test_parity import F32_TOLERANCE, config, rms
from tests.parity.test_parity_webgpu import F16_NOISE

# A kernel takes NVRTC and the host's compiler seconds.
pytestmark = pytest.mark.full

CASE = "qwen3-gqa2-tied"
ARCHES = (80, 90)


Compile = Callable[[str], Path]


@pytest.fixture(scope="session")
def compiled(shared: Path, checkpoints: Callable[[str], Path], own_data_folder: None) -> Compile:
    """A folder with a ``bundle`` of the tiny checkpoint in a weight scheme, and its ``dump``."""
    folder = shared / "emulated"
    folder.mkdir(exist_ok=True)
    return lambda quant: programs.compiled(
        checkpoints(CASE), folder / f"{CASE}-{quant}-auto", quant
    )


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The emulated driver in place of NVIDIA's; the folder it looks for kernels in."""
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DRIVER, str(emulated.driver_path()))
        patch.setenv("EDGEWISE_EMULATED_KERNELS", str(folder))
        yield folder
    for opened in gpu._open.values():
        opened.discard()
    gpu._open.clear()


@pytest.fixture
def program(compiled: Compile, kernels: Path) -> Iterator[CudaProgram]:
    """The program of float16 over weights of four bits."""
    made = compiled("q4")
    emulated.give_dump(kernels, made / "dump" / "cuda-f16")
    bundle = Bundle.open(made / "bundle")
    with CudaDevice().load(bundle, "cuda-f16", load_symbols={"pages": PAGES}) as loaded:
        yield loaded


def test_f32_logits_are_those_of_transformers(compiled: Compile, kernels: Path) -> None:
    golden, made = make_goldens.load(CASE), compiled("f32")
    emulated.give_dump(kernels, made / "dump" / "cuda-f32")
    with Engine(made / "bundle", device="cuda", program="cuda-f32") as engine:
        logits = engine.score(golden["tokens"].tolist())
    assert np.abs(logits[golden["rows"]] - golden["logits"]).max() < F32_TOLERANCE


def test_quantized_weights_are_computed_with_as_float16_allows(
    compiled: Compile, kernels: Path, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(CASE)["tokens"].tolist(), config(checkpoints(CASE))
    made = compiled("q4")
    emulated.give_dump(kernels, made / "dump" / "cuda-f16")
    with Engine(made / "bundle", device="cuda", program="cuda-f16") as engine:
        found = engine.score(tokens)
    weights = reference.dequantized(reference.load_weights(checkpoints(CASE)), "q4")
    exact = reference.logits(cfg, weights, tokens)
    assert rms((found - exact) / exact.std()) < F16_NOISE


def test_the_engine_says_what_it_says_on_the_cpu(
    compiled: Compile, kernels: Path, bundles: BundleFactory
) -> None:
    made = compiled("f32")
    emulated.give_dump(kernels, made / "dump" / "cuda-f32")
    said = []
    cpu = bundles(CASE, "f32"), "cpu", None
    for bundle, device, program in (cpu, (made / "bundle", "cuda", "cuda-f32")):
        with Engine(bundle, device=device, program=program) as engine:
            said.append(engine.generate("Once upon a time", max_tokens=24, temperature=0.0).text)
    assert said[0] == said[1]


def test_every_cut_of_a_prompt_gives_the_same_logits(program: CudaProgram) -> None:
    driver = Driver(program, pages=PAGES)
    expected = driver.prefill([(driver.stream(), PROMPT)])[0]
    for cut in (1, 8, 16, 33, 64, 69):
        driver = Driver(program, pages=PAGES, seed=cut)
        stream = driver.stream()
        parts = [driver.prefill([(stream, part)])[0] for part in (PROMPT[:cut], PROMPT[cut:])]
        assert np.array_equal(np.concatenate(parts), expected), f"cut at {cut}"


def test_a_sequence_decodes_alike_alone_and_in_a_batch(program: CudaProgram) -> None:
    lengths = (3, 63, 64, 20)
    found = []
    for group in (*((n,) for n in lengths), lengths):
        driver = Driver(program, pages=PAGES, seed=len(group))
        streams = [driver.stream(i) for i in range(len(group))]
        for stream, n in zip(streams, group, strict=True):
            driver.prefill([(stream, PROMPT[:n])])
        rows = [(s, PROMPT[n]) for s, n in zip(streams, group, strict=True)]
        found.append(np.stack([driver.decode(rows)[1] for _ in range(2)]))
    assert np.array_equal(np.concatenate(found[:-1], axis=1), found[-1])


def test_a_burst_is_its_single_steps_and_one_graph(program: CudaProgram) -> None:
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    driver.prefill([(stream, PROMPT[:30])])
    token, single = PROMPT[30], []
    for _ in range(8):
        [[token]], logits = driver.decode([(stream, token)])
        single.append(token)
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    driver.prefill([(stream, PROMPT[:30])])
    before = emulated.done()
    [tokens], last = driver.decode([(stream, PROMPT[30])], k=8)
    assert emulated.done().graphs == before.graphs + 1
    assert tokens == single
    assert np.array_equal(last, logits)


def test_inspect_shows_what_kernels_take(
    compiled: Compile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    bundle = str(compiled("q4") / "bundle")
    assert main(["inspect", bundle, "--program", "cuda-f16", "--plan", "decode"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    head = ["kernel", "threads", "shared", "sm_80", "registers", "sm_90", "registers", "spilled"]
    rows = lines[lines.index(head) + 1 :]
    plan = Bundle.open(bundle).plans("cuda-f16")["decode"]
    assert [row[0] for row in rows] == list(plan.kernels)
    for row in rows:
        threads, registers = int(row[1]), [int(cell) for cell in row[-2:]]
        assert 1 <= threads <= 1024
        assert all(16 <= count <= 255 for count in registers)


@pytest.mark.parametrize("quant", ["q4", "f32"])
def test_each_fatbin_has_the_kernel_of_its_plan_and_nothing_spills(
    quant: str, compiled: Compile
) -> None:
    bundle = Bundle.open(compiled(quant) / "bundle")
    for made in bundle.manifest.programs:
        launched = {
            made.shaders[name]: kernel.symbol
            for plan in bundle.plans(made.id).values()
            for name, kernel in plan.kernels.items()
        }
        assert launched.keys() == set(made.shaders.values())
        for path, symbol in launched.items():
            images = read_images(path, bundle.read(path))
            cubins = [image for image in images if image.kind == "cubin"]
            assert tuple(image.arch for image in cubins) == ARCHES
            for image in cubins:
                uses = read_uses(path, image)
                assert list(uses) == [symbol]
                assert uses[symbol].stack == 0, f"{path} for {image}"
                assert uses[symbol].registers * uses[symbol].threads[0] <= 1 << 16
