"""What loaded programs of all devices have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from edgewise_runtime.devices import common
from edgewise_runtime.devices.loading import Checked


class OpenProgram(ABC):
    """A program with memory of its own until it is closed; see `base.LoadedProgram`."""

    def __init__(self, checked: Checked) -> None:
        self.bundle = checked.bundle
        self.program = checked.program
        self.plans = checked.plans
        self._closed = False
        self._buffers = checked.buffers
        self._bytes = common.count_bytes(self.plans, checked.sizes)

    @abstractmethod
    def close(self) -> None: ...

    def memory(self) -> dict[str, int]:
        self._open()
        return dict(self._bytes)

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> None:
        """Refuse what is asked of a closed program.

        Raises:
            DeviceError: ``device.closed``.
        """
        if self._closed:
            raise common.closed(self.program)
