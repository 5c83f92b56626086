"""Which devices there are, in which order, and what is said where there is none."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime.devices.vulkan import api as api_module
from edgewise_runtime.devices.vulkan import device as device_module
from edgewise_runtime.devices.vulkan import probe
from edgewise_runtime.devices.vulkan.adapter import (
    KINDS,
    PROGRAM_FEATURES,
    Adapter,
    adapters,
    in_order,
)
from edgewise_runtime.devices.vulkan.api import package
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.vulkan.gpu import close_gpus, open_gpu
from edgewise_runtime.devices.vulkan.probe import is_linear, subgroup_sizes
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.installed import VULKAN


def named(vulkan: VulkanDevice, *names: tuple[str, str]) -> list[Adapter]:
    """Devices like the best one, with these names and kinds."""
    return [replace(vulkan.adapter, index=9, name=name, kind=kind) for name, kind in names]


def test_the_best_kind_comes_first_and_equals_stay_as_they_are(vulkan: VulkanDevice) -> None:
    found = in_order(
        named(
            vulkan,
            ("software", "cpu"),
            ("laptop", "integrated"),
            ("guest", "virtual"),
            ("card b", "discrete"),
            ("card a", "discrete"),
        )
    )
    assert [a.name for a in found] == ["card b", "card a", "laptop", "guest", "software"]
    assert [a.index for a in found] == [0, 1, 2, 3, 4]
    assert str(found[4]) == "software (cpu, Vulkan)"


def test_every_type_of_device_is_of_some_kind() -> None:
    names = ("OTHER", "INTEGRATED_GPU", "DISCRETE_GPU", "VIRTUAL_GPU", "CPU")
    constants = vars(package())
    assert {constants[f"VK_PHYSICAL_DEVICE_TYPE_{name}"] for name in names} == KINDS.keys()


def test_a_device_has_the_features_that_all_parts_of_are_there(vulkan: VulkanDevice) -> None:
    for feature, parts in PROGRAM_FEATURES.items():
        assert feature in replace(vulkan.adapter, has=parts).features
        for part in parts:
            assert feature not in replace(vulkan.adapter, has=parts - {part}).features


def test_a_device_of_this_machine_is_described_by_its_driver(vulkan: VulkanDevice) -> None:
    adapter = vulkan.adapter
    assert adapter.driver
    assert vulkan.identity == f"{adapter}, {adapter.driver}"
    assert 1 << 27 <= adapter.limits.binding <= 1 << 32
    assert vulkan.largest_buffer() == min(adapter.limits.binding, adapter.limits.allocation)
    assert adapter.limits.alignment <= 256
    assert adapter.limits.groups >= (65535, 65535, 65535)
    assert adapter.local_heap > 0


def test_memory_of_its_own_is_what_a_card_has(vulkan: VulkanDevice) -> None:
    card = VulkanDevice()
    card.adapter = replace(vulkan.adapter, kind="discrete")
    assert card.available_memory() == vulkan.adapter.local_heap


@pytest.mark.parametrize("index", [99, -1, "0", True, 1.0])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(index: Any) -> None:
    with pytest.raises(DeviceError, match=repr(index)) as error:
        VulkanDevice(index)
    assert error.value.code == "device.adapter"
    assert f"0 is {adapters()[0]}" in error.value.remedy


def test_the_best_device_is_the_default(vulkan: VulkanDevice) -> None:
    assert vulkan.adapter.index == 0
    assert VulkanDevice(0).name == vulkan.name


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "_api", {})
    monkeypatch.setitem(sys.modules, "vulkan", None)
    with pytest.raises(DeviceError, match="'vulkan'") as error:
        VulkanDevice()
    assert error.value.code == "device.vulkan"
    assert VULKAN.install in error.value.remedy


def test_without_a_loader_it_says_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(api_module, "_api", {})
    for name in [name for name in sys.modules if name.partition(".")[0] == "vulkan"]:
        monkeypatch.delitem(sys.modules, name)
    # What importing the package does where it finds none.
    (tmp_path / "vulkan.py").write_text("raise OSError('Cannot find Vulkan SDK version.')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DeviceError, match="finds no Vulkan loader") as error:
        VulkanDevice()
    assert error.value.code == "device.vulkan"
    assert "driver" in error.value.remedy


def test_without_a_device_it_says_what_drivers_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.vulkan.adapter.adapters", tuple)
    with pytest.raises(DeviceError, match=r"no device with Vulkan 1\.2") as error:
        VulkanDevice()
    assert error.value.code == "device.adapter"
    assert "mesa-vulkan-drivers" in error.value.remedy


@pytest.mark.parametrize(
    ("sizes", "linear"),
    [
        ([32] * 64, True),
        ([4] * 64, True),
        ([128] * 256, True),
        ([2] * 64, False),
        ([24] * 64, False),
        ([256] * 256, False),
        ([0] * 64, False),
        ([8] * 32 + [16] * 32, False),
        ([32] * 63 + [0], False),
    ],
)
def test_subgroups_count_only_where_a_module_sees_them_in_order(
    sizes: list[int], linear: bool
) -> None:
    assert is_linear(sizes) == linear


def test_subgroups_that_fail_the_probe_are_not_offered(
    vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_gpus()
    monkeypatch.setattr(device_module, "linear_subgroups", lambda gpu: False)
    assert VulkanDevice().features() == vulkan.adapter.features - {"subgroups"}
    # A process looks once.
    monkeypatch.setattr(device_module, "linear_subgroups", lambda gpu: True)
    assert VulkanDevice().features() == vulkan.adapter.features - {"subgroups"}
    close_gpus()
    assert VulkanDevice().features() == vulkan.adapter.features
    close_gpus()


def test_a_driver_that_cannot_run_the_probe_has_no_subgroups(
    vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(gpu: object, threads: int) -> list[int]:
        raise DeviceError("No.", code="device.kernel")

    monkeypatch.setattr(probe, "subgroup_sizes", refuse)
    assert not probe.linear_subgroups(open_gpu(vulkan.adapter, frozenset()))


@pytest.mark.parametrize("threads", probe.THREADS)
def test_the_probe_finds_the_size_that_the_driver_tells(vulkan: VulkanDevice, threads: int) -> None:
    gpu = open_gpu(vulkan.adapter, frozenset())
    assert subgroup_sizes(gpu, threads) == [vulkan.adapter.limits.subgroup] * threads
