"""How much CPU and memory this process may use, with limits of containers (cgroups) and of whoever
started it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgewise_runtime.resident import resident_bytes

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")


@dataclass
class _Own:
    """Bytes that this process may have to itself; None for as many as there are."""

    most: int | None = None


_own = _Own()


def limit_memory(most: int | None) -> None:
    """Note that somebody ends this process when it has more than so many bytes to itself.

    What asks `available_memory` from now on keeps within them; None takes the limit away.
    """
    _own.most = most


def own_memory_left() -> int | None:
    """Bytes that this process may still take by `limit_memory`, None without such a limit."""
    if _own.most is None:
        return None
    return max(0, _own.most - (resident_bytes(os.getpid()) or 0))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """The file's one number, None where there is none (``max``)."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _folders(controller: str, proc: Path, cgroup: Path) -> Iterator[Path]:
    """Folders of this process's groups for a controller, innermost first, up to the root.

    A line of ``/proc/self/cgroup`` is ``id:controllers:path``; version 2 has no controllers. Seen
    from inside a container the path may not exist, while the root is the container's own group.
    """
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            root = cgroup
        elif controller in controllers.split(","):
            root = cgroup / controller
        else:
            continue
        inner = Path(path.strip().lstrip("/"))
        for part in (inner, *inner.parents):
            yield root / part


def cpu_quota(proc: Path = PROC, cgroup: Path = CGROUP) -> float | None:
    """CPUs' worth of time a container may use, None without a limit."""
    quotas: list[float] = []
    for folder in _folders("cpu", proc, cgroup):
        both = _text(folder / "cpu.max").split()
        if len(both) == 2 and all(part.isdecimal() for part in both):
            quota, period = int(both[0]), int(both[1])
        else:
            quota = _number(folder / "cpu.cfs_quota_us") or 0
            period = _number(folder / "cpu.cfs_period_us") or 0
        if quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def available_memory(proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """Bytes this process can still take without swapping or being killed, None if unknown.

    The kernel's estimate for the machine, what a container's limit leaves, or what `limit_memory`
    does; file pages the kernel can drop count as available in all of them.
    """
    amounts = [amount for amount in (_meminfo(proc), _sysconf()) if amount is not None][:1]
    for folder in _folders("memory", proc, cgroup):
        for limit_name, usage_name, cache_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, usage = _number(folder / limit_name), _number(folder / usage_name)
            if limit is not None and usage is not None:
                cache = _field(_text(folder / "memory.stat"), cache_name)
                amounts.append(max(0, limit - usage + cache))
    if (own := own_memory_left()) is not None:
        amounts.append(own)
    return min(amounts, default=None)


def _field(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdecimal():
            return int(value)
    return 0


def _meminfo(proc: Path) -> int | None:
    for line in _text(proc / "meminfo").splitlines():
        key, _, value = line.partition(":")
        words = value.split()
        if key == "MemAvailable" and words and words[0].isdecimal():
            return int(words[0]) * 1024
    return None


def _sysconf() -> int | None:
    """The machine's whole memory, where that is all that can be learned."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
