"""The Vulkan device: real modules on a real device (in tests lavapipe), and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgewise_runtime.devices.vulkan.adapter import PROGRAM_FEATURES
from edgewise_runtime.devices.vulkan.device import VulkanDevice, VulkanProgram
from edgewise_runtime.errors import BundleError, DeviceError, TrustError
from edgewise_runtime.format.bundle import Bundle
from tests.runtime import sample
from tests.runtime.devices import tiny_webgpu
from tests.runtime.devices.gpu_programs import GpuProgramTests
from tests.runtime.devices.programs import PAGES, refused
from tests.runtime.sample import Json

Change = Callable[[Json], object]
Make = Callable[..., Bundle]

PARAMS = "params/cpu/00000.safetensors"


class TestProgram(GpuProgramTests):
    """What every device with memory of its own does."""


def test_it_has_features_that_programs_ask_for_and_the_bits_of_its_driver(
    vulkan: VulkanDevice,
) -> None:
    assert vulkan.features() <= PROGRAM_FEATURES.keys()
    assert vulkan.adapter.driver in vulkan.identity


def test_a_process_compiles_a_kernel_once(make_vulkan: Make) -> None:
    with VulkanDevice().load(make_vulkan(), load_symbols=PAGES, trust=True) as first:
        assert first.counters.descriptor_sets == len(tiny_webgpu.KERNELS)
    with VulkanDevice().load(make_vulkan(), load_symbols=PAGES, trust=True) as second:
        assert second.counters.pipelines == 0
        assert second.counters.descriptor_sets == first.counters.descriptor_sets


def test_of_long_rows_only_what_is_asked_for_comes_home(program: VulkanProgram) -> None:
    before = program.counters.buffers
    for _ in range(3):
        assert not program.read("logits", slice(0, 2), slice(1, 5)).any()
    # All of them would need a larger buffer to land in.
    assert program.counters.buffers == before


def test_a_read_larger_than_any_before_grows_its_way_home_once(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    with vulkan.load(make_vulkan(), load_symbols={"pages": 1 << 14}, trust=True) as program:
        buffers = program.counters.buffers
        state = np.arange(1 << 20, dtype=np.float32)
        program.write("kv.0", state)
        assert np.array_equal(program.read("kv.0").reshape(-1), state)
        assert program.counters.buffers == buffers + 1
        assert np.array_equal(program.read("kv.0", slice(1, 3)).reshape(-1), state[64:192])
        assert program.counters.buffers == buffers + 1


def test_weights_go_to_the_gpu_in_pieces_with_progress(
    vulkan: VulkanDevice, make_vulkan: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.vulkan.line.PIECE", 16)
    heard: list[tuple[str, int, int]] = []
    with vulkan.load(
        make_vulkan(), load_symbols=PAGES, trust=True, progress=lambda *report: heard.append(report)
    ) as program:
        assert np.array_equal(program.read("w"), sample.WEIGHT)
    assert heard[-2:] == [("Uploading weights", done, 32) for done in (16, 32)]


def test_what_is_larger_than_the_window_goes_through_it_in_turn(
    vulkan: VulkanDevice, make_vulkan: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.vulkan.line.PIECE", 1 << 12)
    rng = np.random.default_rng(71)
    with vulkan.load(make_vulkan(), load_symbols={"pages": 256}, trust=True) as program:
        expected = np.zeros(256 * 64, np.float32)
        for size in (1, 1023, 1024, 1025, 5000, 16384):
            at = int(rng.integers(0, len(expected) - size + 1))
            values = rng.standard_normal(size).astype(np.float32)
            expected[at : at + size] = values
            program.write("kv.0", values, at)
            # Over what was just written, on its way yet.
            program.write("kv.0", values[:1] + 1, at)
            expected[at] = values[0] + 1
            if size % 2:
                assert np.array_equal(program.read("kv.0").reshape(-1), expected)
        assert np.array_equal(program.read("kv.0").reshape(-1), expected)


def test_a_buffer_beyond_the_adapters_limit_is_refused_with_both_numbers(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    most = vulkan.largest_buffer()
    pages = most // 256 + 1
    with pytest.raises(DeviceError) as error:
        vulkan.load(make_vulkan(), load_symbols={"pages": pages}, trust=True)
    assert error.value.code == "device.memory"
    assert "'kv.0'" in error.value.message
    assert f"{pages * 256:,}" in error.value.message
    assert f"{most:,}" in error.value.message
    assert "--context" in error.value.remedy


def test_damaged_modules_and_parameters_are_found_before_they_are_used(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    for name in ("programs/vulkan/visit.spv", PARAMS):
        bundle = make_vulkan()
        data = bytearray(bundle.file(name).read_bytes())
        data[70] ^= 1
        bundle.file(name).write_bytes(data)
        load = lambda: vulkan.load(bundle, load_symbols=PAGES, trust=True)  # noqa: B023, E731
        assert refused(load, BundleError) == "bundle.checksum"


def test_modules_are_native_code_that_has_to_be_trusted(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    load = lambda: vulkan.load(make_vulkan(), load_symbols=PAGES)  # noqa: E731
    assert refused(load, TrustError) == "trust.unsigned"


def test_a_module_that_is_not_what_the_plan_says_is_refused(
    vulkan: VulkanDevice, make_vulkan: Make, modules: dict[str, bytes]
) -> None:
    for visit in (b"", b"this is no SPIR-V", modules["stamp"]):
        bundle = make_vulkan(visit=visit)
        load = lambda: vulkan.load(bundle, load_symbols=PAGES, trust=True)  # noqa: B023, E731
        assert refused(load, BundleError) == "bundle.shader"
