"""The GPU bench on CUDA, through the emulated driver: every stage runs, and what it finds adds up.

The times are the emulated driver's, which mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkpoint import SHAPES
from edgewise_compiler.targets.cuda.fatbin import fatbin
from edgewise_runtime.devices.cuda import gpu as gpus
from edgewise_runtime.devices.cuda.driver import DRIVER
from gpu import cuda, run, skeleton
from gpu.pack import archive
from gpu.recording import Call, load_call, save_call
from gpu.run import CudaBench
from gpu.skeleton import compile_skeleton
from gpu.speed import Effort
from tests.gpu_emulator.driver import emulated
from tests.runtime.devices import tiny_cuda

PROGRAM = "cuda-f32"
EFFORT = Effort(rounds=1, sample_s=0.01, prefills=(32,), batches=(1, 2), histories=(40,))


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The emulated driver in place of NVIDIA's; the folder it looks for kernels in."""
    monkeypatch.setenv(DRIVER, str(emulated.driver_path()))
    monkeypatch.setenv("EDGEWISE_EMULATED_KERNELS", str(tmp_path))
    yield tmp_path
    for opened in gpus._open.values():
        opened.discard()
    gpus._open.clear()


def scaling(kernels: Path) -> Call:
    """A recorded call of the tiny kernel that multiplies two rows of x by w."""
    made = tiny_cuda.kernel("scale")
    emulated.give_kernel(kernels, made)
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    w, marks = np.linspace(1, 2, 8, dtype=np.float32), np.zeros(4, np.float32)
    step = np.array([2, 1, 1, 1], np.int32)
    scaled, marked = x.copy(), marks.copy()
    scaled[:2] *= w
    marked[:2] = 1, 2
    code = fatbin(made.entry, made.source)
    before = (x, w, marks, step)
    return Call("scale", "", "", (4, 1), before, {0: scaled, 2: marked}, code, made.entry)


@pytest.mark.landing
def test_a_call_keeps_its_fatbin(kernels: Path) -> None:
    call = scaling(kernels)
    path = save_call(kernels / "calls", call)
    assert path is not None
    again = load_call(path)
    assert (again.fatbin, again.fatbin_entry) == (call.fatbin, "scale_kernel")


@pytest.mark.landing
def test_recorded_calls_pass_where_the_answer_is_right_and_only_there(kernels: Path) -> None:
    call = scaling(kernels)
    wrong = replace(call, kernel="wrong", after={0: call.after[0] + 1, 2: call.after[2]})
    without = replace(call, kernel="without", fatbin=b"")
    for each in (call, wrong, without):
        save_call(kernels / "calls", each)
    found = list(CudaBench(None).replay(sorted((kernels / "calls").glob("*.npz"))))
    assert {outcome.kernel: outcome.passed for outcome in found} == {"scale": True, "wrong": False}
    assert emulated.left().memory == emulated.left().pinned == 0


def test_a_fatbin_that_the_driver_refuses_is_a_failure_with_its_words(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_GPUS", "75")
    save_call(kernels / "calls", scaling(kernels))
    [outcome] = CudaBench(None).replay(list((kernels / "calls").glob("*.npz")))
    assert not outcome.passed
    assert "no kernel image is available" in outcome.failure


def test_copying_has_a_speed(kernels: Path) -> None:
    found = cuda.bandwidth(cuda.TimedCuda(), rounds=1, size=1 << 20)
    assert found["copy_buffer"] > 0
    assert emulated.left().memory == 0


@pytest.mark.full
def test_a_run_measures_every_figure_and_asks_recorded_calls_again(
    kernels: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = skeleton.build_program

    def given(language: Any, low: Any, made: Any, shaders: Any) -> Any:
        built = build(language, low, made, shaders)
        if low.variant.name == PROGRAM:
            for name in {name for item in built for name in item.kernels}:
                emulated.give_kernel(kernels, shaders[name])
        return built

    monkeypatch.setattr(skeleton, "build_program", given)
    folder, packed = tmp_path_factory.mktemp("tiny"), tmp_path_factory.mktemp("packed")
    compile_skeleton(SHAPES["tiny"], "f16", folder, 512, target="cuda", max_batch=2)
    archive(folder, packed / "programs/cuda/tiny-f16.zip")
    save_call(packed / "kernels", scaling(kernels))
    monkeypatch.setitem(run.EFFORTS, "cuda", (EFFORT, EFFORT))
    line = f"run.py {packed} --device cuda --only kernels speed peer --shapes tiny-f16 --programs"
    monkeypatch.setattr("sys.argv", [*line.split(), PROGRAM])
    with pytest.raises(SystemExit) as ended:
        run.main()
    result = json.loads((packed / "results/results.json").read_text())
    assert (result["problems"], ended.value.code) == ([], 0)
    assert (result["kernels"]["calls"], result["kernels"]["passed"]) == (1, 1)
    assert result["bandwidth"]["copy_buffer"] > 0
    [found] = result["speed"]
    assert set(found["speed"]) >= {"prefill 32", "decode x1 k=1 after 40", "decode x2 k=8 after 40"}
    for step in found["steps"]:
        own = step["kernels"]
        assert sum(kernel["launches"] for kernel in own) == step["launches"]
        assert sum(kernel["bytes"] for kernel in own) == step["bytes"]
        assert step["clock"] == "events"
    text = (packed / "results/results.md").read_text()
    assert "# Emulated GPU 0 (sm_90, CUDA)" in text
    assert "| decode x2 k=8 after 40 |" in text
    assert emulated.left().memory == 0
