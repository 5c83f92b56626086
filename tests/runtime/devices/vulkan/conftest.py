"""Every test here runs under the Khronos validation layer, and fails where that says anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.vulkan.api import api, forget
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.vulkan.gpu import close_gpus
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.devices import tiny_vulkan
from tests.runtime.devices.gpu_programs import GpuTiny

SETTINGS = """\
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.log_filename = {log}
khronos_validation.report_flags = error,warn,perf
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
"""


@pytest.fixture(scope="package")
def validation_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the layer says of an instance that only the tests of this folder use."""
    folder = tmp_path_factory.mktemp("validation")
    log = folder / "log.txt"
    (folder / "vk_layer_settings.txt").write_text(SETTINGS.format(log=log))
    close_gpus()
    forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VK_LAYER_SETTINGS_PATH", str(folder))
        patch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
        vulkan = api()
    yield log
    close_gpus()
    left = vulkan.alive()
    forget()
    assert left == {}
    assert not said(log)


def said(log: Path) -> str:
    """What the layer has said so far; the instance has the file open."""
    return log.read_text() if log.exists() else ""


@pytest.fixture(autouse=True)
def silent(validation_log: Path) -> Iterator[None]:
    """Fails a test during which the layer says anything."""
    before = len(said(validation_log))
    yield
    assert said(validation_log)[before:] == ""


@pytest.fixture(scope="package")
def vulkan(validation_log: Path) -> VulkanDevice:
    """The best device; without a GPU that is a driver on the CPU."""
    return VulkanDevice()


@pytest.fixture
def tiny(vulkan: VulkanDevice, make_vulkan: Callable[..., Bundle]) -> GpuTiny:
    def readbacks(program: LoadedProgram) -> int:
        return program.counters.readbacks

    return GpuTiny(vulkan, make_vulkan, tiny_vulkan.ID, VulkanDevice, readbacks)


@pytest.fixture
def program(tiny: GpuTiny) -> Iterator[LoadedProgram]:
    """The tiny program loaded with 4 pages."""
    with tiny.load() as loaded:
        yield loaded
