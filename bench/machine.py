"""What a result was measured on, and waiting until nothing else is."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from edgewise_runtime.cpuid import cpu_features, cpu_name

IDLE_SHARE = 0.85
QUIET, GLANCE = 0.5, 0.02  # seconds looked at


def describe(threads: int) -> dict[str, object]:
    """The machine as a dictionary that goes beside every result."""
    return {
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "features": sorted(cpu_features()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "threads": threads,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": list(os.getloadavg()),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("edgewise", "apache-tvm", "numpy")},
        },
    }


def wait_until_idle(seconds: float) -> float:
    """Waits up to ``seconds`` for a quiet half second; the share of CPU time idle in it.

    Without any patience it only looks for a moment.
    """
    end = time.monotonic() + seconds
    while True:
        idle = idle_share(QUIET if seconds else GLANCE)
        if idle >= IDLE_SHARE or time.monotonic() >= end:
            return idle


def idle_share(seconds: float) -> float:
    """The share of all processors' time that is idle over the next ``seconds``."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    return (after[0] - before[0]) / max(1, after[1] - before[1])


def _ticks() -> tuple[int, int]:
    """Idle and total ticks since boot: columns 4 and 5 are idle and waiting for a disk."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    ticks = [int(value) for value in first.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
