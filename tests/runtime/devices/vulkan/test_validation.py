"""That the validation layer is there and is heard: a silence that proves nothing would pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise_runtime.devices.vulkan.api import Objects
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.vulkan.gpu import open_gpu
from edgewise_runtime.devices.vulkan.memory import STORAGE
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.devices.vulkan.conftest import said


@pytest.fixture
def silent() -> None:
    """Not here: what is said is what is tested."""


def test_the_layer_is_heard(vulkan: VulkanDevice, validation_log: Path) -> None:
    gpu = open_gpu(vulkan.adapter, frozenset())
    objects = Objects(gpu.api, gpu.device)
    before = said(validation_log)
    objects.create("Buffer", gpu.api.info("BufferCreateInfo", size=0, usage=STORAGE))
    objects.destroy()
    after = said(validation_log)
    assert "VUID-VkBufferCreateInfo-size" in after.removeprefix(before)
    validation_log.write_text(before)


def test_a_launch_without_the_barrier_it_needs_is_heard(
    vulkan: VulkanDevice,
    make_vulkan: Callable[..., Bundle],
    validation_log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "edgewise_runtime.devices.vulkan.binding.barriers", lambda launches: [False] * len(launches)
    )
    before = said(validation_log)
    with vulkan.load(make_vulkan(), load_symbols={"pages": 4}, trust=True) as program:
        program.run("prefill")
        program.read("kv.0")
    assert "SYNC-HAZARD-READ-AFTER-WRITE" in said(validation_log).removeprefix(before)
    validation_log.write_text(before)
