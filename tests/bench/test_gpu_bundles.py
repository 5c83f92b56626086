"""Bundles without weights, filled at random, run as any other; what is measured adds up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkpoint import SHAPES
from edgewise_runtime.devices.wgpu.adapter import choose_adapter
from edgewise_runtime.format.abi import SEQUENCE, TABLE_HEADER, TEMPERATURE, TOP_K, TOP_P
from edgewise_runtime.format.bundle import Bundle
from gpu.clock import Clock, TimedGpu, bandwidth
from gpu.fill import fill
from gpu.kernels import TimedDevice, Work, step_arrays
from gpu.pack import chosen
from gpu.report import markdown
from gpu.skeleton import compile_skeleton
from gpu.speed import QUICK, measure_program, runnable
from tests.parity.driver import Driver

PROGRAM = "webgpu-f16-subgroups"
CONTEXT = 512
PAGES = 128


@pytest.fixture(scope="module")
def gpu() -> TimedGpu:
    return TimedGpu(choose_adapter(None))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("tiny")
    compile_skeleton(SHAPES["tiny"], "q4", folder, context=CONTEXT)
    assert not (folder / "params").exists()
    fill(folder)
    return Bundle.open(folder)


@pytest.mark.full
def test_a_filled_bundle_is_whole(bundle: Bundle) -> None:
    bundle.check()
    assert bundle.name == "tiny-q4"
    assert bundle.model.vocab == SHAPES["tiny"].vocab


@pytest.mark.full
def test_random_weights_give_finite_logits(gpu: TimedGpu, bundle: Bundle) -> None:
    with TimedDevice(gpu).load(bundle, PROGRAM, load_symbols={"pages": PAGES}) as program:
        driver = Driver(program, pages=PAGES)
        [logits] = driver.prefill([(driver.stream(), range(8))])
    assert np.isfinite(logits).all()
    assert logits.std() > 0


@pytest.mark.full
def test_every_figure_of_a_program_is_measured(gpu: TimedGpu, bundle: Bundle) -> None:
    found = measure_program(TimedDevice(gpu), bundle, PROGRAM, QUICK, 20.0)
    assert set(found["speed"]) >= {"prefill 128", "decode x1 k=1", "decode x4 k=8"}
    for step in found["steps"]:
        kernels = step["kernels"]
        assert sum(kernel["launches"] for kernel in kernels) == step["launches"]
        assert sum(kernel["bytes"] for kernel in kernels) == step["bytes"]
        assert step["floor_s"] == pytest.approx(step["bytes"] / 20e9, abs=1e-7)
        assert all(kernel["seconds"] > 0 for kernel in kernels)
        assert all(seconds > 0 for seconds in step["encode_s"].values())
    text = markdown(_result(gpu, found))
    assert "| decode x1 k=8 |" in text
    assert "Kernels of prefill 128" in text
    assert text.count("The sampler: 5 launches") == 1


@pytest.mark.full
def test_programs_that_a_gpu_cannot_run_are_left_out(bundle: Bundle) -> None:
    every = [program.id for program in bundle.manifest.programs]
    everything = frozenset({"shader-f16", "subgroups", "packed_4x8_integer_dot_product"})
    assert runnable(everything, bundle, None) == every
    assert runnable(everything, bundle, ["webgpu-f32", "other"]) == ["webgpu-f32"]
    assert runnable(frozenset({"shader-f16"}), bundle, None) == [
        "webgpu-f16",
        "webgpu-f32",
        "webgpu-f32-serial",
    ]


def test_tokens_are_drawn_as_models_ask_for_while_kernels_are_timed() -> None:
    arrays = step_arrays(Work("decode", 2, 2, 30), TABLE_HEADER + 8, 16)
    floats, integers = arrays["sampling_f"], arrays["sampling_i"]
    np.testing.assert_allclose(floats[:, [TEMPERATURE, TOP_P]], [[0.6, 0.95]] * 2)
    assert integers[:, TOP_K].tolist() == [20, 20]
    assert integers[:, SEQUENCE].tolist() == [0, 1]


def test_step_buffers_give_every_sequence_rows_and_pages_of_its_own() -> None:
    arrays = step_arrays(Work("decode", 4, 4, 30), TABLE_HEADER + 8, 16)
    pages = arrays["table"][:, TABLE_HEADER : TABLE_HEADER + 2].ravel().tolist()
    assert sorted(pages) == list(range(8))
    assert arrays["step"][:4].tolist() == [4, 4, 4, 31]
    assert arrays["positions"].tolist() == [30] * 4
    arrays = step_arrays(Work("prefill", 6, 2, 0), TABLE_HEADER + 8, 16)
    assert arrays["row_seq"].tolist() == [0, 0, 0, 1, 1, 1]
    assert arrays["positions"].tolist() == [0, 1, 2, 0, 1, 2]
    assert arrays["logit_rows"].tolist() == [2, 5]


@pytest.mark.landing
def test_twice_the_work_takes_longer_by_either_clock(gpu: TimedGpu) -> None:
    source, target = (gpu.device.create_buffer(size=32 << 20, usage=12) for _ in range(2))

    def copy(size: int) -> float:
        def encode(encoder: object, times: int) -> None:
            for _ in range(times):
                encoder.copy_buffer_to_buffer(source, 0, target, 0, size)  # type: ignore[attr-defined]

        return min(Clock(gpu).wall_seconds(encode, 2))

    assert copy(32 << 20) > 2 * copy(1 << 20) > 0


@pytest.mark.landing
def test_copying_has_a_speed(gpu: TimedGpu) -> None:
    found = bandwidth(gpu, rounds=1, size=4 << 20)
    assert found.keys() == {"copy_buffer", "copy_shader", "read_shader"}
    assert min(found.values()) > 0


def test_one_call_of_every_kernel_is_packed_before_a_second(tmp_path: Path) -> None:
    sizes = {"a-1": 10, "a-2": 20, "a-3": 30, "b-1": 60, "c-1": 500}
    for name, size in sizes.items():
        (tmp_path / f"{name}.npz").write_bytes(bytes(size))
    kept = chosen(list(tmp_path.glob("*.npz")), most=95)
    assert [path.stem for path in kept] == ["a-1", "b-1", "a-2"]


def _result(gpu: TimedGpu, program: dict[str, object]) -> dict[str, object]:
    adapter = {"name": "x", "kind": "cpu", "backend": "Vulkan", "driver": "y", "features": []}
    return {"machine": {"date": "today"}, "adapter": adapter, "speed": [program]}
