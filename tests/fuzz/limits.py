"""What one case may take, measured and held to by the system."""

from __future__ import annotations

import faulthandler
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass(frozen=True)
class Limits:
    """What a case may take.

    Attributes:
        cpu_s: seconds of the processor, of all threads; then the system ends the process.
        wall_s: seconds after which a case that waits for something hangs, however busy the machine.
        memory: bytes in use at a time, beside twice what the case holds.
        address_space: bytes the process may map in all.
    """

    cpu_s: int = 5
    wall_s: float = 60.0
    memory: int = 100 << 20
    address_space: int = 6 << 30


class Meter:
    """Holds one case after the other to its limits. For the whole life of a process."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._before = 0
        resource.setrlimit(resource.RLIMIT_AS, (limits.address_space, limits.address_space))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Says where it was, also of code that never comes back to Python, and ends the process.
        faulthandler.enable()
        faulthandler.register(signal.SIGXCPU, chain=True)

    def begin(self) -> None:
        """Before a case."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = int(used.ru_utime + used.ru_stime)
        with suppress(ValueError):
            # Whole seconds; the one that has begun is the case's as well.
            resource.setrlimit(
                resource.RLIMIT_CPU, (spent + self._limits.cpu_s + 1, resource.RLIM_INFINITY)
            )
        _REFS.write_text("5")
        self._before = _kib("VmRSS")

    def took(self) -> int:
        """Bytes that were in use at a time since, beside those in use before."""
        return 1024 * (_kib("VmHWM") - self._before)

    def allows(self, took: int, size: int) -> bool:
        """Whether a case of `size` bytes may take so much memory."""
        return took <= 2 * size + self._limits.memory


def _kib(name: str) -> int:
    text = _STATUS.read_text()
    return int(text[text.index(name) :].split(None, 2)[1])
