"""A CPU that stands still while its gate is closed, and fails when it is told to."""

from __future__ import annotations

from threading import Event
from typing import Any

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import DeviceError

PATIENCE = 60
"""Seconds after which a test that waits has failed."""


class Gate(CpuDevice):
    """A CPU for tests of what happens while it computes.

    Attributes:
        stands: whether a launch is waiting for the gate to open.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stands = Event()
        self._open = Event()
        self._open.set()
        self._failing = 0
        self._code = ""

    def close(self) -> None:
        """From the next launch on, stand still."""
        self.stands.clear()
        self._open.clear()

    def wait(self) -> None:
        """Wait until a launch stands still."""
        assert self.stands.wait(PATIENCE)

    def open(self) -> None:
        """Go on."""
        self._open.set()

    def fail(self, launches: int, code: str) -> None:
        """Fail at the launch after so many more; with ``device.lost`` at all after it, too."""
        self._failing, self._code = launches + 1, code

    def load(self, *args: Any, **options: Any) -> Any:
        return Gated(super().load(*args, **options), self)

    def pass_through(self) -> None:
        """Wait where the gate is closed, and fail where it is time."""
        if not self._open.is_set():
            self.stands.set()
            assert self._open.wait(PATIENCE)
        if self._failing:
            self._failing -= 1
            if not self._failing:
                if self._code == "device.lost":
                    self._failing = 1
                raise DeviceError("The device has failed.", code=self._code)


class Gated:
    """A loaded program whose launches go through a gate."""

    def __init__(self, program: LoadedProgram, gate: Gate) -> None:
        self._program = program
        self._gate = gate

    def run(self, plan: str, k: int = 1) -> None:
        self._gate.pass_through()
        self._program.run(plan, k)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)
