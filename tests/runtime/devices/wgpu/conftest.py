"""The tiny program on this machine's best adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.devices import tiny_webgpu
from tests.runtime.devices.gpu_programs import GpuTiny


@pytest.fixture
def tiny(device: WgpuDevice, make_webgpu: Callable[..., Bundle]) -> GpuTiny:
    def readbacks(program: LoadedProgram) -> int:
        return program.counters.readbacks

    return GpuTiny(device, make_webgpu, tiny_webgpu.ID, WgpuDevice, readbacks)


@pytest.fixture
def program(tiny: GpuTiny) -> Iterator[LoadedProgram]:
    """The tiny program loaded with 4 pages."""
    with tiny.load() as loaded:
        yield loaded
