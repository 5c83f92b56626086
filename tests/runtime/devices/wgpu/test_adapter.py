"""Which adapters there are, in which order, and what is said where there is none."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.wgpu import gpu as wgpu_gpu
from edgewise_runtime.devices.wgpu.adapter import LANGUAGE_FEATURES, adapters, in_order
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.devices.wgpu.gpu import DEFAULT_LIMITS, Gpu
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.installed import WGPU


def handle(name: str, kind: str, backend: str, device_id: int = 7, vendor_id: int = 4318) -> Any:
    """An adapter as wgpu describes it."""
    info = {
        "device": name,
        "vendor": "driver",
        "description": "1.2",
        "vendor_id": vendor_id,
        "device_id": device_id,
        "adapter_type": kind,
        "backend_type": backend,
    }
    limits = {"max-buffer-size": (1 << 31) - 1, "max-storage-buffer-binding-size": 1 << 28}
    return SimpleNamespace(info=info, features={"shader-f16", "polygon-mode-line"}, limits=limits)


def test_the_best_kind_comes_first_and_equals_stay_as_they_are() -> None:
    found = in_order(
        [
            handle("software", "CPU", "Vulkan", 1),
            handle("laptop", "IntegratedGPU", "Vulkan", 2),
            handle("guest", "Unknown", "Vulkan", 3),
            handle("card b", "DiscreteGPU", "Vulkan", 5),
            handle("card a", "DiscreteGPU", "Vulkan", 4),
        ]
    )
    assert [a.name for a in found] == ["card b", "card a", "laptop", "guest", "software"]
    assert [a.index for a in found] == [0, 1, 2, 3, 4]
    assert [a.kind for a in found[2:]] == ["integrated", "virtual", "cpu"]


def test_an_adapter_that_several_backends_show_is_there_once() -> None:
    card = [handle("card", "DiscreteGPU", backend) for backend in ("D3D12", "OpenGL", "Vulkan")]
    software = [handle("soft", "CPU", backend, 0, 65541) for backend in ("Vulkan", "OpenGL")]
    found = in_order([*card, *software])
    assert [(a.name, a.backend) for a in found] == [("card", "Vulkan"), ("soft", "Vulkan")]


def test_two_equal_cards_are_two() -> None:
    cards = [handle("card", "DiscreteGPU", b) for b in ("Vulkan", "Vulkan", "D3D12", "D3D12")]
    assert [(a.index, a.backend) for a in in_order(cards)] == [(0, "Vulkan"), (1, "Vulkan")]


def test_backends_that_cannot_compute_everything_are_left_out() -> None:
    assert in_order([handle("old", "IntegratedGPU", b) for b in ("OpenGL", "OpenGLES")]) == ()


def test_an_adapter_is_described_by_what_programs_need() -> None:
    (found,) = in_order([handle("card", "DiscreteGPU", "Metal")])
    assert found.features == {"shader-f16"} | LANGUAGE_FEATURES
    assert (found.max_buffer, found.max_binding) == ((1 << 31) - 4, 1 << 28)
    assert found.driver == "driver 1.2"
    assert str(found) == "card (discrete, Metal)"


def test_no_more_of_a_buffer_is_bound_than_kernels_can_count() -> None:
    card = handle("card", "DiscreteGPU", "Metal")
    card.limits["max-storage-buffer-binding-size"] = 1 << 36
    (found,) = in_order([card])
    assert found.max_binding == 1 << 32


@pytest.mark.parametrize("index", [99, -1, "0", True, 1.0])
def test_an_adapter_that_is_not_there_is_refused_with_those_that_are(index: Any) -> None:
    with pytest.raises(DeviceError, match=repr(index)) as error:
        WgpuDevice(index)
    assert error.value.code == "device.adapter"
    assert f"0 is {adapters()[0]}" in error.value.remedy


def test_the_best_adapter_is_the_default(device: WgpuDevice) -> None:
    assert device.adapter.index == 0
    assert WgpuDevice(0).name == device.name


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    with pytest.raises(DeviceError, match="'wgpu'") as error:
        WgpuDevice()
    assert error.value.code == "device.wgpu"
    assert WGPU.install in error.value.remedy


def test_without_an_adapter_it_says_what_drivers_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(enumerate_adapters_sync=list)
    monkeypatch.setitem(sys.modules, "wgpu", SimpleNamespace(gpu=gpu))
    with pytest.raises(DeviceError, match="no Vulkan") as error:
        WgpuDevice()
    assert error.value.code == "device.adapter"
    assert "mesa-vulkan-drivers" in error.value.remedy


def test_a_device_has_webgpus_default_limits_but_for_sizes(device: WgpuDevice) -> None:
    gpu = Gpu(device.adapter)
    assert {name: gpu.device.limits[name] for name in DEFAULT_LIMITS} == DEFAULT_LIMITS
    assert gpu.device.limits["max-buffer-size"] == device.adapter.max_buffer
    assert gpu.device.limits["max-storage-buffer-binding-size"] == device.adapter.max_binding
    assert device.largest_buffer() == min(device.adapter.max_buffer, device.adapter.max_binding)


def test_an_adapter_below_the_default_limits_is_refused(device: WgpuDevice) -> None:
    with pytest.MonkeyPatch.context() as patch:
        beyond = DEFAULT_LIMITS | {"max-compute-workgroup-storage-size": 1 << 30}
        patch.setattr(wgpu_gpu, "DEFAULT_LIMITS", beyond)
        with pytest.raises(DeviceError, match="default limits") as error:
            Gpu(device.adapter)
    assert error.value.code == "device.adapter"


@pytest.mark.parametrize(
    ("sizes", "linear"),
    [
        ("32u", True),
        ("4u", True),
        ("128u", True),
        ("2u", False),
        ("24u", False),
        ("select(8u, 16u, thread < 32u)", False),
        ("select(32u, 0u, thread == 63u)", False),
        ("no WGSL at all", False),
    ],
)
def test_subgroups_count_only_where_a_shader_sees_them_in_order(
    device: WgpuDevice, monkeypatch: pytest.MonkeyPatch, sizes: str, linear: bool
) -> None:
    probe = """
    @group(0) @binding(0) var<storage, read_write> sizes: array<u32>;
    @compute @workgroup_size({threads})
    fn main(@builtin(local_invocation_index) thread: u32) {{ sizes[thread] = SIZES; }}
    """
    monkeypatch.setattr(wgpu_gpu, "PROBE", probe.replace("SIZES", sizes))
    features = Gpu(device.adapter).features
    offered = "subgroups" in device.adapter.features
    assert ("subgroups" in features) == (linear and offered)


def test_the_probe_finds_lanes_as_kernels_do(device: WgpuDevice) -> None:
    """A shader computes by subgroup operations what the host can compute from their size."""
    if "subgroups" not in device.features():
        return
    gpu = Gpu(device.adapter)
    code = """
    @group(0) @binding(0) var<storage, read_write> out: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(local_invocation_index) thread: u32) {
        out[thread] = subgroupShuffleXor(thread, 1u);
        out[64u + thread] = subgroupAdd(1u);
    }
    """
    flags = gpu.api.BufferUsage
    out = gpu.device.create_buffer(size=512, usage=flags.STORAGE | flags.COPY_SRC)
    module = gpu.device.create_shader_module(code=code)
    pipeline = gpu.device.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": "main"}
    )
    group = gpu.device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": 0, "resource": {"buffer": out}}],
    )
    encoder = gpu.device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(1)
    work.end()
    gpu.queue.submit([encoder.finish()])
    found = np.frombuffer(gpu.queue.read_buffer(out), np.uint32)
    assert found[:64].tolist() == [thread ^ 1 for thread in range(64)]
    assert len(set(found[64:].tolist())) == 1
