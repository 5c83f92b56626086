"""The tiny program on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.devices.programs import Tiny


@pytest.fixture
def tiny(make: Callable[..., Bundle]) -> Tiny:
    return Tiny(CpuDevice(2), make, "cpu-f32-portable")
