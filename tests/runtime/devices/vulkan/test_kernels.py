"""Kernels that a device cannot run are refused before anything is made for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from edgewise_runtime.devices.vulkan import probe
from edgewise_runtime.devices.vulkan.api import api
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.vulkan.gpu import FULL_SUBGROUPS, Gpu
from edgewise_runtime.devices.vulkan.probe import linear_subgroups
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle

Make = Callable[..., Bundle]

PAGES = {"pages": 4}


def limited(vulkan: VulkanDevice, **limits: Any) -> VulkanDevice:
    """The device, allowing less."""
    device = VulkanDevice()
    device.features()  # proven with what it really allows
    device.adapter = replace(vulkan.adapter, limits=replace(vulkan.adapter.limits, **limits))
    return device


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"buffers": 3}, "'scale' has 4 buffers; .* allows 3"),
        ({"size": (7, 64, 64)}, "'scale' has 8 threads in x; .* allows 7"),
        ({"threads": 3}, "'scale' has 8 threads in a workgroup; .* allows 3"),
        ({"groups": (7, 64, 64)}, "'visit' has 8 workgroups in x; .* allows 7"),
        ({"groups": (65535, 3, 1)}, "'visit' has 4 workgroups in y; .* allows 3"),
        ({"shared": -1}, "'scale' has 0 bytes of shared memory; .* allows -1"),
    ],
)
def test_a_kernel_beyond_a_limit_is_refused_with_both_numbers(
    vulkan: VulkanDevice, make_vulkan: Make, limits: dict[str, Any], says: str
) -> None:
    device, bundle = limited(vulkan, **limits), make_vulkan()
    before = api().made.copy()
    with pytest.raises(DeviceError, match=says) as error:
        device.load(bundle, load_symbols=PAGES, trust=True)
    assert error.value.code == "device.limit"
    assert error.value.remedy
    assert api().made == before


def test_what_a_kernel_sees_of_a_buffer_is_held_to_the_limit(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    device = limited(vulkan, binding=1 << 21)
    pages = (1 << 21) // 256 + 1
    with pytest.raises(DeviceError, match=r"'kv\.0' takes 2,097,408 bytes") as error:
        device.load(make_vulkan(), load_symbols={"pages": pages}, trust=True)
    assert error.value.code == "device.memory"
    with device.load(make_vulkan(), load_symbols={"pages": pages - 1}, trust=True) as program:
        assert program.memory()["state"] == 1 << 21


def test_a_module_that_asks_for_more_than_the_device_has_is_refused_by_name(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    device = VulkanDevice()
    device.adapter = replace(vulkan.adapter, has=vulkan.adapter.has - {"subgroup arithmetic"})
    bundle = make_vulkan(visit=probe.module(64))
    with pytest.raises(DeviceError, match="ask for subgroup arithmetic, which") as error:
        device.load(bundle, load_symbols=PAGES, trust=True)
    assert error.value.code == "device.no_program"


def test_only_features_that_modules_ask_for_are_switched_on(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    with vulkan.load(make_vulkan(), load_symbols=PAGES, trust=True) as plain:
        assert plain._gpu.wants == frozenset()
        bundle = make_vulkan(visit=probe.module(64))
        with vulkan.load(bundle, load_symbols=PAGES, trust=True) as other:
            assert other._gpu.wants == {"subgroup basic", "subgroup arithmetic"}
            assert other._gpu is not plain._gpu
            # Its subgroups are the first one's argument, `seen`, now.
            other.run("visit")
            sizes = other.read("seen").view("uint32")
            assert set(sizes.reshape(-1).tolist()) == {vulkan.adapter.limits.subgroup}


def test_full_subgroups_are_asked_for_where_they_can_be(vulkan: VulkanDevice) -> None:
    """The probe passes with and without, and the validation layer has nothing to say."""
    for has in (vulkan.adapter.has | {FULL_SUBGROUPS}, vulkan.adapter.has - {FULL_SUBGROUPS}):
        adapter = replace(vulkan.adapter, has=has & vulkan.adapter.has)
        gpu = Gpu(adapter, frozenset())
        assert linear_subgroups(gpu) == ("subgroups" in vulkan.features())
        gpu.close()
