"""The table of devices: names, what they mean, and what every kind must have."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest

from edgewise_runtime.devices import loading, table
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.table import DEVICES, Entry, device_for_target, named_device
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.errors import DeviceError, InputError
from edgewise_runtime.format.targets import TARGETS
from edgewise_runtime.installed import VULKAN, WGPU

ROOT = Path(__file__).parents[3]
EVERYWHERE = ("cpu", "wgpu", "vulkan")
"""Kinds that every machine has which runs the tests; of others it may have none."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cpu", CpuDevice),
        ("wgpu", WgpuDevice),
        ("wgpu:0", WgpuDevice),
        ("vulkan", VulkanDevice),
        ("vulkan:0", VulkanDevice),
    ],
)
def test_devices_have_names(name: str, kind: type) -> None:
    assert isinstance(named_device(name), kind)


@pytest.mark.parametrize(
    "name", ["", "gpu", "wgpu:", "wgpu:x", "wgpu:-1", "cpu:0", "WGPU", "webgpu"]
)
def test_a_name_that_means_nothing_is_refused_with_those_that_do(name: str) -> None:
    with pytest.raises(InputError, match=repr(name)) as error:
        named_device(name)
    assert error.value.code == "input.device"
    for known in ("cpu", "wgpu", "wgpu:N", WGPU.install, "vulkan:N", VULKAN.install):
        assert known in error.value.remedy


def test_threads_are_those_of_the_cpu() -> None:
    device = named_device("cpu", threads=3)
    assert isinstance(device, CpuDevice)
    assert device.threads == 3


@pytest.mark.parametrize("name", DEVICES)
def test_a_kind_runs_a_target_of_the_format_and_loads_as_all_do(name: str) -> None:
    kind = DEVICES[name]
    assert kind.target in TARGETS
    for function in ("make", "find"):
        parameters = inspect.signature(getattr(kind.entry, function)).parameters
        expected = inspect.signature(getattr(Entry, function)).parameters
        assert [*parameters] == [*expected][1:]
    # By its type, since this machine may not have one.
    device = get_type_hints(kind.entry.make)["return"]
    assert device.target == kind.target
    # So none can leave out that native code must be trusted.
    assert device.load is loading.load


@pytest.mark.parametrize("name", DEVICES)
def test_the_devices_that_are_found_can_be_named(name: str) -> None:
    try:
        found = DEVICES[name].entry.find()
    except DeviceError:
        found = []
    assert found or name not in EVERYWHERE
    for device in found:
        assert not device.trouble
        assert device.features <= named_device(device.name).features()


def test_every_folder_with_an_entry_is_in_the_table() -> None:
    folder = Path(table.__file__).parent
    assert {path.parent.name for path in folder.glob("*/entry.py")} == DEVICES.keys()


def test_what_a_kind_needs_can_be_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, kind in DEVICES.items():
        if kind.needs is not None:
            assert project["optional-dependencies"][name] == [kind.needs.requirement]


def test_a_target_runs_on_its_device() -> None:
    assert isinstance(device_for_target("cpu"), CpuDevice)
    assert isinstance(device_for_target("webgpu"), WgpuDevice)
    assert isinstance(device_for_target("vulkan"), VulkanDevice)


def test_a_target_that_nothing_runs_is_refused() -> None:
    with pytest.raises(InputError, match="abacus") as error:
        device_for_target("abacus")
    assert error.value.code == "input.device"
    for kind in DEVICES.values():
        assert kind.target in error.value.remedy


def test_a_machine_without_adapters_has_none_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.wgpu.adapter.adapters", tuple)
    with pytest.raises(DeviceError, match="no Vulkan, Metal or Direct3D 12") as error:
        DEVICES["wgpu"].entry.find()
    assert error.value.code == "device.adapter"


def test_a_device_loads_what_it_needs_and_nothing_of_the_others() -> None:
    code = (
        "import sys\n"
        "from edgewise_runtime.devices.table import named_device\n"
        "assert not {'wgpu', 'vulkan', 'tvm_ffi'} & sys.modules.keys()\n"
        "named_device('cpu')\n"
        "others = ('wgpu', 'vulkan')\n"
        "print([name for name in sys.modules if name.rpartition('.')[2] in others])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
