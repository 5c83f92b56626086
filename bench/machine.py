"""What a result was measured on, and waiting until nothing else is."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from edgewise_runtime.cpuid import cpu_features, cpu_name
from edgewise_runtime.devices.wgpu.adapter import Adapter

IDLE_SHARE = 0.85
QUIET, GLANCE = 0.5, 0.02  # seconds looked at

LIMITS = (
    "max-buffer-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-storage-size",
    "max-storage-buffer-binding-size",
)
"""What is told of an adapter's limits, by wgpu's names."""


def describe(threads: int | None = None) -> dict[str, object]:
    """The machine as a dictionary that goes beside every result; ``threads`` are those used."""
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
            **_versions("edgewise", "apache-tvm", "numpy", "wgpu"),
        },
    }


def describe_adapter(adapter: Adapter) -> dict[str, object]:
    """A GPU, or what plays one, as a dictionary that goes beside every result."""
    limits = adapter.handle.limits
    return {
        "name": adapter.name,
        "kind": adapter.kind,
        "backend": adapter.backend,
        "driver": adapter.driver,
        "features": sorted(adapter.features),
        "timestamps": "timestamp-query" in adapter.handle.features,
        "lavapipe_threads": os.environ.get("LP_NUM_THREADS"),
        "limits": {name: limits[name] for name in LIMITS if name in limits},
    }


def _versions(*names: str) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


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


def busy_seconds() -> float:
    """Processor seconds that all processes, and a hypervisor's others, have taken since boot."""
    idle, total = _ticks()
    return (total - idle) / os.sysconf("SC_CLK_TCK")


def _ticks() -> tuple[int, int]:
    """Idle and total ticks since boot: columns 4 and 5 are idle and waiting for a disk."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    ticks = [int(value) for value in first.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
