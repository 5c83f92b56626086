"""Everything a person does with a bundle, done on a GPU: here one that the CPU plays."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise.cli.main import main
from edgewise.diff import default_tolerance, report, run_program
from edgewise_runtime.devices.wgpu.device import WgpuDevice, WgpuProgram
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle, describe_files
from tests.conftest import BundleFactory
from tests.runtime import sample

CASE = "qwen3-gqa2-tied"
TOKENS = tuple(range(5, 45))
PROGRAMS = ("webgpu-f32", "webgpu-f32-subgroups", "webgpu-f16", "webgpu-f16-subgroups")


@pytest.fixture(scope="module")
def both(bundles: BundleFactory) -> Path:
    """A q4 bundle for the CPU and for WebGPU."""
    return bundles(CASE, targets=("cpu", "webgpu"))


@pytest.fixture(scope="module")
def device() -> WgpuDevice:
    """One for all, so that its kernels are compiled once."""
    return WgpuDevice()


@pytest.fixture(params=["cpu", "wgpu"])
def anywhere(both: Path, device: WgpuDevice, request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(both, device="cpu" if request.param == "cpu" else device) as engine:
        yield engine


@pytest.mark.landing
def test_the_best_program_of_the_device_runs(both: Path) -> None:
    features = WgpuDevice().features()
    best = "webgpu-f16" if "shader-f16" in features else "webgpu-f32"
    with Engine(both, device="wgpu:0") as engine:
        assert engine.program == best + ("-subgroups" if "subgroups" in features else "")
        assert engine.device == WgpuDevice(0).name
        assert set(engine.memory()) == {"param", "state", "input", "output", "scratch"}
    with Engine(both) as engine:
        assert engine.program.startswith("cpu-")


def test_the_same_calls_work_on_every_device(anywhere: Engine) -> None:
    options = {"temperature": 0, "ignore_eos": True}
    prompts = [[7, 8, 9], list(range(10, 60)), [3]]
    alone = [anywhere.generate(prompt, max_tokens=12, **options) for prompt in prompts]
    together = anywhere.generate(prompts, max_tokens=12, **options)
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]
    assert {len(c.token_ids) for c in alone} == {12}
    with anywhere.generate(prompts[0], max_tokens=12, stream=True, **options) as stream:
        assert "".join(stream) == alone[0].text
    with anywhere.generate(prompts[1], max_tokens=200, stream=True, **options) as stream:
        next(stream)
    assert stream.completion.finish_reason == "cancelled"
    assert anywhere.generate(prompts[2], max_tokens=12, **options).token_ids == alone[2].token_ids


@pytest.mark.landing
def test_logits_agree_between_devices(both: Path, device: WgpuDevice) -> None:
    with Engine(both) as engine:
        expected = engine.score(TOKENS)
    spread = expected.std()
    for program in ("webgpu-f32", "webgpu-f16"):
        with Engine(both, device=device, program=program) as engine:
            found = engine.score(TOKENS)
        # The CPU quantizes activations; both have the same weights.
        assert np.sqrt(np.mean((found - expected) ** 2)) < 0.05 * spread


def spoiled(bundle: Path, out: Path, program: str, plan: str) -> Path:
    """A copy of a bundle in which the kernel of a plan's down projections computes something else,
    for all programs that use it."""
    shutil.copytree(bundle, out)
    opened = Bundle.open(out)
    steps = opened.plans(program)[plan].steps
    kernel = next(step.kernel for step in steps if step.label.endswith(".down"))
    path = out / opened.manifest.program(program).shaders[kernel]
    text = path.read_text()
    assert "fma(" in text
    path.write_text(text.replace("fma(", "fma(0.5f * ", 1))
    value = sample.read_manifest(out)
    entry = describe_files(path.parent)[path.name]
    value["files"][path.relative_to(out).as_posix()] = entry.to_json()
    sample.write_manifest(out, value)
    return out


@pytest.mark.landing
@pytest.mark.parametrize("plan", ["prefill", "prefill_few", "decode_few", "decode"])
def test_a_shader_that_computes_something_else_is_refused(
    both: Path, device: WgpuDevice, tmp_path: Path, plan: str
) -> None:
    wrong = spoiled(both, tmp_path / "wrong", "webgpu-f32", plan)
    with pytest.raises(DeviceError, match=r"logits are off by .* of their deviation") as refused:
        Engine(wrong, device=device, program="webgpu-f32")
    assert refused.value.code == "device.output"
    assert "webgpu-f32-serial" in refused.value.remedy


def test_generating_makes_nothing_and_submits_once_a_call(both: Path, device: WgpuDevice) -> None:
    with Engine(both, device=device) as engine:
        program = engine._session.program
        assert isinstance(program, WgpuProgram)
        engine.generate([1, 2, 3], max_tokens=2, ignore_eos=True)
        counters = program.counters
        before = (counters.buffers, counters.pipelines, counters.bind_groups)
        submits, readbacks = counters.submits, counters.readbacks
        engine.generate([4] * 200, max_tokens=30, ignore_eos=True)
        assert (counters.buffers, counters.pipelines, counters.bind_groups) == before
        # Two chunks of embed and prefill, logits, sample; bursts of 1, 2, 4, 8, 8 and 6 tokens.
        assert counters.submits - submits == 2 * 2 + 2 + 6
        # After each burst, and after the first token, one look at what was sampled.
        assert counters.readbacks - readbacks == 1 + 6


@pytest.mark.landing
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_can_be_compared_kernel_by_kernel(
    both: Path, device: WgpuDevice, program: str
) -> None:
    bundle = Bundle.open(both)
    reference = run_program(bundle, "webgpu-f32", TOKENS, rows=4, device=device)
    outputs = run_program(bundle, program, TOKENS, rows=4, device=device)
    arithmetic = bundle.manifest.program(program).arithmetic
    tolerance = default_tolerance({"f32", arithmetic}, same_bits=program == "webgpu-f32")
    result = report((program, "webgpu-f32"), outputs, reference, len(TOKENS), tolerance)
    assert result.first is None
    assert len(result.differences) > 15


@pytest.mark.landing
def test_a_trace_ends_where_a_run_ends(both: Path, device: WgpuDevice) -> None:
    """Logits of the launches one by one are those of whole plans, bit for bit."""
    outputs = run_program(Bundle.open(both), "webgpu-f32", TOKENS, rows=8, device=device)
    with Engine(both, device=device, program="webgpu-f32") as engine:
        assert np.array_equal(outputs["logits"], engine.score(TOKENS)[-8:])


@pytest.mark.landing
def test_the_command_compares_devices(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cpu = Bundle.open(both).manifest.programs[0].id
    assert main(["diff", f"{both}:webgpu-f32", f"{both}:{cpu}"]) == 0
    out = capsys.readouterr().out
    assert "No kernel departs" in out
    assert "tolerance 0.5" in out
    assert main(["diff", f"{both}:webgpu-f32", f"{both}:webgpu-f32-subgroups"]) == 0
    assert "tolerance 0.0001" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--device", "wgpu"], ["--program", "webgpu-f32"]])
def test_run_and_chat_take_a_device_or_a_program(
    both: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sampling = ["--max-tokens", "5", "--temperature", "0", "--ignore-eos"]
    chat = ["chat", str(both), "--question", "Hi"]
    command = ["run", str(both), "Once"] if "wgpu" in options else chat
    assert main([*command, *options, *sampling]) == 0
    said = capsys.readouterr()
    assert "5 tokens" in said.out + said.err


def test_inspect_and_doctor_know_programs_for_gpus(
    both: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["inspect", str(both)]) == 0
    out = capsys.readouterr().out
    assert "any GPU" in out
    assert "could run" in out
    assert main(["inspect", str(both), "--program", "webgpu-f32", "--plan", "decode"]) == 0
    assert "layers.0.qkv" in capsys.readouterr().out
    assert main(["doctor", str(both)]) == 0
    assert "on wgpu:0" in (out := capsys.readouterr().out)
    assert "would run webgpu-" in out


@pytest.mark.landing
def test_a_bundle_only_for_gpus_runs_on_one(bundles: BundleFactory) -> None:
    with Engine(bundles(CASE, targets=("webgpu",))) as engine:
        assert engine.program.startswith("webgpu-")
        assert engine.generate([1, 2], max_tokens=3, ignore_eos=True).token_ids
