"""CPU features, threads and limits, read from files like those of other machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

import pytest

from edgewise_runtime import cpuid, limits

XEON = """processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8481C
flags\t\t: fpu sse4_1 avx avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni amx_tile amx_int8

processor\t: 1
model name\t: Intel(R) Xeon(R) Platinum 8481C
flags\t\t: fpu sse4_1 avx avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni amx_tile amx_int8
"""
HYBRID = """processor\t: 0
flags\t\t: avx2 avx_vnni fma f16c avx512f
processor\t: 1
flags\t\t: avx2 avx_vnni fma f16c
"""
GRAVITON = """processor\t: 0
Features\t: fp asimd evtstrm aes asimdhp cpuid asimddp sve i8mm bf16
"""


@pytest.mark.parametrize(
    ("text", "features"),
    [
        (
            XEON,
            "sse4.1 avx avx2 fma f16c avx512f avx512bw avx512vl avx512vnni amxtile amxint8",
        ),
        (HYBRID, "avx2 avxvnni fma f16c"),
        (GRAVITON, "neon fullfp16 dotprod sve i8mm bf16"),
        ("", ""),
        ("flags", ""),
        ("\0\n:::\nflags: \n", ""),
    ],
    ids=["xeon", "hybrid", "graviton", "empty", "cut", "odd"],
)
def test_features_are_those_all_processors_share(text: str, features: str) -> None:
    assert cpuid.parse_features(text) == frozenset(features.split())


@pytest.mark.parametrize(
    ("words", "features"),
    [
        ({16: 0, 26: 0}, ""),
        ({16: 1 << 1 | 1 << 20, 26: 0}, "neon dotprod"),
        ({16: (1 << 32) - 1, 26: (1 << 32) - 1}, " ".join(cpuid.ARM_FEATURES.values())),
    ],
)
def test_linux_on_arm_gives_every_process_the_features(
    words: dict[int, int], features: str
) -> None:
    assert cpuid.arm_features(words.__getitem__) == frozenset(features.split())


def test_macos_answers_feature_by_feature() -> None:
    def sysctl(names: Iterable[str]) -> dict[str, str]:
        values = {"hw.optional.neon": "1", "hw.optional.arm.FEAT_DotProd": "1"}
        return {name: values.get(name, "0") for name in names}

    assert cpuid.mac_features(sysctl) == {"neon", "dotprod"}
    assert cpuid.mac_features(lambda names: {}) == frozenset()


def test_this_machine_can_be_asked() -> None:
    assert cpuid.cpu_name()
    assert 1 <= cpuid.default_threads() <= (os.cpu_count() or 1)
    assert cpuid.cpu_features() is cpuid.cpu_features()


@pytest.mark.parametrize(
    ("machine", "arch"),
    [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("arm64", "aarch64"), ("riscv64", "riscv64")],
)
def test_an_architecture_has_one_name(
    monkeypatch: pytest.MonkeyPatch, machine: str, arch: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert cpuid.cpu_arch() == arch


@pytest.mark.parametrize(
    ("system", "name"),
    [("Linux", "linux"), ("Darwin", "macos"), ("Windows", "windows"), ("FreeBSD", "freebsd")],
)
def test_a_system_has_one_name(monkeypatch: pytest.MonkeyPatch, system: str, name: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    assert cpuid.cpu_system() == name


def write_siblings(folder: Path, siblings: dict[int, str]) -> None:
    for cpu, text in siblings.items():
        place = folder / f"cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(text + "\n")


@pytest.mark.parametrize(
    ("siblings", "cpus", "cores"),
    [
        ({0: "0", 1: "1"}, {0, 1}, 2),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, {0, 1, 2, 3}, 2),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, {0, 2}, 1),
        ({}, {0, 1, 2}, 3),
        ({}, set(), 1),
    ],
)
def test_hyperthreads_share_a_core(
    tmp_path: Path, siblings: dict[int, str], cpus: set[int], cores: int
) -> None:
    write_siblings(tmp_path, siblings)
    assert cpuid.physical_cores(frozenset(cpus), tmp_path) == cores


@pytest.mark.parametrize(
    ("cpus", "cores", "quota", "threads"),
    [
        (8, 4, None, 4),
        (8, 8, None, 8),
        (2, 1, None, 2),
        (1, 1, None, 1),
        (8, 8, 2.5, 2),
        (8, 8, 0.5, 1),
        (8, 4, 100.0, 4),
    ],
)
def test_threads_respect_cores_affinity_and_quota(
    monkeypatch: pytest.MonkeyPatch, cpus: int, cores: int, quota: float | None, threads: int
) -> None:
    monkeypatch.setattr(cpuid, "usable_cpus", lambda: frozenset(range(cpus)))
    monkeypatch.setattr(cpuid, "physical_cores", lambda cpus: cores)
    monkeypatch.setattr(cpuid, "cpu_quota", lambda: quota)
    assert cpuid.default_threads() == threads


def tree(root: Path, files: dict[str, str]) -> tuple[Path, Path]:
    """A machine's /proc and /sys/fs/cgroup with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "proc", root / "cgroup"


MEMINFO = "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:   4000 kB\n"
V2 = {"proc/self/cgroup": "0::/a/b\n", "proc/meminfo": MEMINFO}
V1 = {"proc/self/cgroup": "9:cpu,cpuacct:/box\n4:memory:/box\n", "proc/meminfo": MEMINFO}


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        (V2, None),
        (V2 | {"cgroup/a/b/cpu.max": "max 100000\n"}, None),
        (V2 | {"cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        (V2 | {"cgroup/a/b/cpu.max": "max 100000", "cgroup/a/cpu.max": "200000 100000"}, 2.0),
        (V2 | {"cgroup/cpu.max": "50000 100000"}, 0.5),
        (V2 | {"cgroup/cpu.max": "0 0"}, None),
        (V1 | {"cgroup/cpu/box/cpu.cfs_quota_us": "-1"}, None),
        (
            V1
            | {
                "cgroup/cpu/box/cpu.cfs_quota_us": "300000",
                "cgroup/cpu/box/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
    ],
)
def test_a_containers_cpu_limit_is_found(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    assert limits.cpu_quota(*tree(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("files", "available"),
    [
        (V2, 4_096_000),
        (V2 | {"cgroup/a/b/memory.max": "max", "cgroup/a/b/memory.current": "5"}, 4_096_000),
        (V2 | {"cgroup/a/b/memory.max": "9000000000", "cgroup/a/b/memory.current": "5"}, 4_096_000),
        (V2 | {"cgroup/a/b/memory.max": "1000", "cgroup/a/b/memory.current": "900"}, 100),
        (
            V2
            | {
                "cgroup/a/memory.max": "1000",
                "cgroup/a/memory.current": "900",
                "cgroup/a/memory.stat": "anon 1\ninactive_file 300\n",
            },
            400,
        ),
        (V2 | {"cgroup/a/b/memory.max": "1000", "cgroup/a/b/memory.current": "1100"}, 0),
        (
            V1
            | {
                "cgroup/memory/box/memory.limit_in_bytes": "2000",
                "cgroup/memory/box/memory.usage_in_bytes": "500",
                "cgroup/memory/box/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
            },
            1600,
        ),
    ],
)
def test_a_containers_memory_limit_is_found(
    tmp_path: Path, files: dict[str, str], available: int
) -> None:
    assert limits.available_memory(*tree(tmp_path, files)) == available


def test_a_limit_of_its_own_leaves_what_the_process_does_not_have_yet(tmp_path: Path) -> None:
    files = {"proc/meminfo": f"MemAvailable: {1 << 40} kB\n"}
    try:
        limits.limit_memory(1 << 40)
        left = limits.available_memory(*tree(tmp_path, files))
        assert left is not None
        assert (1 << 40) - (8 << 30) < left < 1 << 40
        limits.limit_memory(1)
        assert limits.available_memory(*tree(tmp_path, files)) == 0
    finally:
        limits.limit_memory(None)
    assert limits.available_memory(*tree(tmp_path, files)) == 1 << 50


def test_without_any_of_these_files_the_machine_is_asked(tmp_path: Path) -> None:
    available = limits.available_memory(*tree(tmp_path, {}))
    assert available is None or available > 1 << 20
