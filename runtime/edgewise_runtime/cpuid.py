"""What this machine's CPU is called, can do, and how many threads suit it.

Features carry LLVM's names without their dashes (``avx512vnni``, ``amxint8``), which are the names
programs in a bundle need. Linux reads ``/proc/cpuinfo``, whose flags already leave out what the
kernel has not enabled. On 64-bit ARM it asks for the words that every process is given: an emulator
may show the ``/proc`` of the machine around it. macOS asks ``sysctl`` (untested); elsewhere no
feature is reported and the portable programs run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from edgewise_runtime.limits import cpu_quota

X86_FEATURES: dict[str, str] = {
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "ssse3": "ssse3",
    "popcnt": "popcnt",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi2": "bmi2",
    "avx_vnni": "avxvnni",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vbmi": "avx512vbmi",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "amx_tile": "amxtile",
    "amx_int8": "amxint8",
    "amx_bf16": "amxbf16",
}
"""Flags of /proc/cpuinfo on x86 to feature names."""

ARM_FEATURES: dict[str, str] = {
    "asimd": "neon",
    "asimdhp": "fullfp16",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
}
"""Features of /proc/cpuinfo on 64-bit ARM to feature names."""

ARM_BITS: dict[int, dict[int, str]] = {
    16: {1: "asimd", 10: "asimdhp", 20: "asimddp", 22: "sve"},
    26: {1: "sve2", 13: "i8mm", 14: "bf16"},
}
"""Which bits of a process's auxiliary vector (AT_HWCAP, AT_HWCAP2) are which features of
/proc/cpuinfo, on Linux on 64-bit ARM (its ``asm/hwcap.h``)."""

MAC_FEATURES: dict[str, str] = {
    "hw.optional.avx2_0": "avx2",
    "hw.optional.fma": "fma",
    "hw.optional.f16c": "f16c",
    "hw.optional.avx512f": "avx512f",
    "hw.optional.avx512bw": "avx512bw",
    "hw.optional.avx512vl": "avx512vl",
    "hw.optional.avx512vnni": "avx512vnni",
    "hw.optional.neon": "neon",
    "hw.optional.arm.FEAT_FP16": "fullfp16",
    "hw.optional.arm.FEAT_DotProd": "dotprod",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
    "hw.optional.arm.FEAT_BF16": "bf16",
}
"""Names of sysctl on macOS, 1 where present, to feature names."""

ARCHES: dict[str, str] = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
"""Other systems' names for an architecture to the one bundles use."""

SYSTEMS: dict[str, str] = {"darwin": "macos"}
"""Python's names of systems to those that bundles use, where they are others."""

CPUINFO = Path("/proc/cpuinfo")
CPU_FOLDER = Path("/sys/devices/system/cpu")


def cpu_arch() -> str:
    """The architecture: ``x86_64``, ``aarch64`` or what the system calls it."""
    machine = platform.machine().lower()
    return ARCHES.get(machine, machine)


def cpu_system() -> str:
    """The system that loads programs' libraries: ``linux``, ``macos`` or ``windows``."""
    system = platform.system().lower()
    return SYSTEMS.get(system, system)


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """Features every one of this machine's CPUs has."""
    if sys.platform == "darwin":
        return mac_features(_sysctl)
    if sys.platform == "linux" and cpu_arch() == "aarch64":
        return arm_features(_auxiliary)
    try:
        return parse_features(CPUINFO.read_text())
    except OSError:
        return frozenset()


def parse_features(cpuinfo: str) -> frozenset[str]:
    """Features that all processors of a ``/proc/cpuinfo`` share."""
    tables = {"flags": X86_FEATURES, "features": ARM_FEATURES}
    found: list[frozenset[str]] = []
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        table = tables.get(key.strip().lower())
        if table is not None:
            found.append(frozenset(table[flag] for flag in value.split() if flag in table))
    return frozenset.intersection(*found) if found else frozenset()


def arm_features(auxiliary: Callable[[int], int]) -> frozenset[str]:
    """Features by the words of a process's auxiliary vector, on Linux on 64-bit ARM."""
    return frozenset(
        ARM_FEATURES[flag]
        for word, flags in ARM_BITS.items()
        for bit, flag in flags.items()
        if auxiliary(word) >> bit & 1
    )


def _auxiliary(word: int) -> int:
    """``getauxval`` of the C library, which Linux has wherever Python runs on it."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
    return int(getauxval(word))


def mac_features(sysctl: Callable[[Iterable[str]], Mapping[str, str]]) -> frozenset[str]:
    """Features by macOS's ``sysctl``, which maps the names it knows to their values."""
    known = sysctl(MAC_FEATURES)
    return frozenset(feature for key, feature in MAC_FEATURES.items() if known.get(key) == "1")


def _sysctl(names: Iterable[str]) -> dict[str, str]:
    """Values of those of the names that exist; `sysctl` prints ``name: value`` lines."""
    try:
        done = subprocess.run(
            ["/usr/sbin/sysctl", *names], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    pairs = (line.partition(": ") for line in done.stdout.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def cpu_name() -> str:
    """What the CPU calls itself, for people."""
    if sys.platform == "darwin":
        return _sysctl(["machdep.cpu.brand_string"]).get("machdep.cpu.brand_string", cpu_arch())
    try:
        text = CPUINFO.read_text()
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or cpu_arch()


def usable_cpus() -> frozenset[int]:
    """Numbers of the logical CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def physical_cores(cpus: frozenset[int], folder: Path = CPU_FOLDER) -> int:
    """How many physical cores the logical CPUs belong to; as many as CPUs where nobody says."""
    cores: set[str] = set()
    for cpu in cpus:
        try:
            siblings = (folder / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
        except OSError:
            siblings = str(cpu)
        cores.add(siblings.strip())
    return max(1, len(cores))


def default_threads() -> int:
    """How many threads kernels use unless told: one per physical core this process may use.

    Two hyperthreads of a lone core still get a thread each. Affinity and a container's CPU limit
    are respected, since threads beyond them only wait for each other.
    """
    cpus = usable_cpus()
    threads = max(physical_cores(cpus), min(2, len(cpus)))
    quota = cpu_quota()
    return threads if quota is None else max(1, min(threads, int(quota)))
