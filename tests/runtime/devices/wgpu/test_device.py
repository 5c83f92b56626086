"""The WebGPU device: real shaders on a real adapter (in tests lavapipe), and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.wgpu.adapter import LANGUAGE_FEATURES
from edgewise_runtime.devices.wgpu.device import WgpuDevice, WgpuProgram
from edgewise_runtime.errors import BundleError, DeviceError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.targets import TARGETS
from tests.runtime import sample
from tests.runtime.devices import tiny_webgpu
from tests.runtime.devices.gpu_programs import (
    PAGES,
    GpuProgramTests,
    refused,
    write_step,
    write_table,
)
from tests.runtime.sample import Json

Change = Callable[[Json], object]
Make = Callable[..., Bundle]

PARAMS = "params/cpu/00000.safetensors"
ROOT = Path(__file__).parents[4]


class TestProgram(GpuProgramTests):
    """What every device with memory of its own does."""


def test_it_has_features_that_programs_ask_for_and_the_bits_of_its_driver(
    device: WgpuDevice,
) -> None:
    assert device.features() <= {"shader-f16", "subgroups"} | LANGUAGE_FEATURES
    assert device.adapter.driver in device.identity


def test_a_loaded_program_makes_nothing_and_submits_once_a_run(program: WgpuProgram) -> None:
    write_table(program)
    write_step(program)
    before = program.counters
    made = (before.buffers, before.pipelines, before.bind_groups)
    submits, dispatches, readbacks = before.submits, before.dispatches, before.readbacks
    program.run("decode", 8)
    table, step = program.read("table"), program.read("step", slice(0, 2))
    after = program.counters
    assert (table[0, 0], step.tolist()) == (8, [4, 2])
    assert (after.buffers, after.pipelines, after.bind_groups) == made
    assert after.submits == submits + 1
    assert after.dispatches == dispatches + 8
    # One look brings home all that the plan wrote.
    assert after.readbacks == readbacks + 1


def test_a_process_compiles_a_kernel_once(make_webgpu: Make) -> None:
    with WgpuDevice().load(make_webgpu(), load_symbols=PAGES) as first:
        assert first.counters.bind_groups == len(tiny_webgpu.KERNELS)
    with WgpuDevice().load(make_webgpu(), load_symbols=PAGES) as second:
        assert second.counters.pipelines == 0
        assert second.counters.bind_groups == first.counters.bind_groups


def test_of_long_rows_only_what_is_asked_for_comes_home(program: WgpuProgram) -> None:
    before = program.counters.buffers
    for _ in range(3):
        assert not program.read("logits", slice(0, 2), slice(1, 5)).any()
    # All of them would need a larger buffer to land in.
    assert program.counters.buffers == before


def test_a_read_larger_than_any_before_grows_its_way_home_once(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    with device.load(make_webgpu(), load_symbols={"pages": 1 << 14}) as program:
        buffers = program.counters.buffers
        state = np.arange(1 << 20, dtype=np.float32)
        program.write("kv.0", state)
        assert np.array_equal(program.read("kv.0").reshape(-1), state)
        assert program.counters.buffers == buffers + 1
        assert np.array_equal(program.read("kv.0", slice(1, 3)).reshape(-1), state[64:192])
        assert program.counters.buffers == buffers + 1


def test_weights_go_to_the_gpu_in_pieces_with_progress(
    device: WgpuDevice, make_webgpu: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.wgpu.transfer.UPLOAD_CHUNK", 12)
    monkeypatch.setattr("edgewise_runtime.devices.wgpu.transfer.UPLOAD_AHEAD", 24)
    heard: list[tuple[str, int, int]] = []
    with device.load(
        make_webgpu(), load_symbols=PAGES, progress=lambda *report: heard.append(report)
    ) as program:
        assert np.array_equal(program.read("w"), sample.WEIGHT)
    assert heard[-3:] == [("Uploading weights", done, 32) for done in (12, 24, 32)]


def test_a_buffer_beyond_the_adapters_limit_is_refused_with_both_numbers(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    most = device.largest_buffer()
    pages = most // 256 + 1
    with pytest.raises(DeviceError) as error:
        device.load(make_webgpu(), load_symbols={"pages": pages})
    assert error.value.code == "device.memory"
    assert "'kv.0'" in error.value.message
    assert f"{pages * 256:,}" in error.value.message
    assert f"{most:,}" in error.value.message
    assert "--context" in error.value.remedy


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("this is no WGSL", r"expected global item .* found \"this\""),
        ("@compute @workgroup_size(1) fn other() {}", "Unable to find entry point 'visit_kernel'"),
        # The plan says that the kernel only reads its second buffer.
        (
            "@group(0) @binding(1) var<storage, read_write> b: array<i32>;\n"
            "@compute @workgroup_size(1) fn visit_kernel() { b[0] = 1; }",
            "doesn't match the shader",
        ),
    ],
)
def test_a_kernel_the_driver_refuses_is_named(
    device: WgpuDevice, make_webgpu: Make, source: str, says: str
) -> None:
    with pytest.raises(
        DeviceError, match=f"The kernel 'visit' does not compile: .*{says}"
    ) as error:
        device.load(make_webgpu(visit=source), load_symbols=PAGES)
    assert error.value.code == "device.kernel"
    assert "│" not in error.value.message


def test_damaged_shaders_and_parameters_are_found_before_they_are_used(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    for name in ("programs/webgpu/visit.wgsl", PARAMS):
        bundle = make_webgpu()
        data = bytearray(bundle.file(name).read_bytes())
        data[70] ^= 1
        bundle.file(name).write_bytes(data)
        load = lambda: device.load(bundle, load_symbols=PAGES)  # noqa: B023, E731
        assert refused(load, BundleError) == "bundle.checksum"


@pytest.mark.parametrize("source", ["//" + "x" * TARGETS["webgpu"].largest_file, "\udcff"])
def test_shaders_that_are_no_text_or_endless_are_refused(
    device: WgpuDevice, make_webgpu: Make, source: str
) -> None:
    bundle = make_webgpu()
    path = bundle.file("programs/webgpu/visit.wgsl")
    path.write_bytes(source.encode(errors="surrogateescape"))
    manifest = sample.read_manifest(bundle.path)
    manifest["files"] = sample.list_files(bundle.path)
    sample.write_manifest(bundle.path, manifest)
    opened = Bundle.open(bundle.path)
    assert refused(lambda: device.load(opened, load_symbols=PAGES), BundleError) == "bundle.shader"


def test_the_line_that_enables_subgroups_is_no_hindrance(
    device: WgpuDevice, make_webgpu: Make, shaders: dict[str, Json]
) -> None:
    source = "enable subgroups;\n" + shaders["visit"]["source"]
    with device.load(make_webgpu(visit=source), load_symbols=PAGES) as program:
        write_step(program)
        program.run("visit")
        assert program.read("seen").sum() == 32
