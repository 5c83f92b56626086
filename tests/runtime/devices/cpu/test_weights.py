"""Files of weights lie in large pages where the system has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.arrays import LARGE_PAGE
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cpu.weights import LEAST, PART, open_files
from edgewise_runtime.errors import DeviceError, StorageError

SIZES = {"a": 5000, "b": LEAST + PART + 1, "c": 1}

Files = dict[str, tuple[Path, int]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    rng = np.random.default_rng(7)
    for name, size in SIZES.items():
        (tmp_path / name).write_bytes(rng.bytes(size))
    return {name: (tmp_path / name, size) for name, size in SIZES.items()}


@pytest.fixture
def mode(tmp_path: Path) -> Path:
    path = tmp_path / "mode"
    path.write_text("always [madvise] never\n")
    return path


def flags_of(array: Array) -> set[str]:
    """What the kernel keeps about the mapping that ``array`` begins in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, _, rest = line.partition(" ")
        if "-" in first and not first.endswith(":"):
            start, stop = (int(bound, 16) for bound in first.split("-"))
            inside = start <= array.ctypes.data < stop
        elif inside and first == "VmFlags:":
            return set(rest.split())
    return set()


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_large_files_are_read_into_large_pages(files: Files, mode: Path) -> None:
    arrays = open_files(files, mode)
    for name, (path, _) in files.items():
        assert arrays[name].tobytes() == path.read_bytes()
        assert arrays[name].ctypes.data % 4096 == 0
        assert not arrays[name].flags.writeable
        assert not is_mapped(path)
    assert arrays["a"].ctypes.data % LARGE_PAGE == 0
    assert "hg" in flags_of(arrays["a"])


@pytest.mark.parametrize("setting", ["always madvise [never]\n", None], ids=["never", "none"])
def test_without_large_pages_files_are_mapped(
    files: Files, mode: Path, setting: str | None
) -> None:
    mode.unlink() if setting is None else mode.write_text(setting)
    arrays = open_files(files, mode)
    for name, (path, _) in files.items():
        assert arrays[name].tobytes() == path.read_bytes()
        assert not arrays[name].flags.writeable
        assert is_mapped(path)


def test_what_stays_in_caches_is_mapped(files: Files, mode: Path) -> None:
    path, size = files["a"]
    arrays = open_files({"a": (path, size)}, mode)
    assert arrays["a"].tobytes() == path.read_bytes()
    assert is_mapped(path)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_is_refused(files: Files, mode: Path, change: int) -> None:
    path, size = files["b"]
    with path.open("r+b") as file:
        file.truncate(size + change)
    with pytest.raises(DeviceError, match=rf"b has {size + change} bytes, and had {size}") as error:
        open_files(files, mode)
    assert error.value.code == "device.file"


def test_a_file_that_is_gone_is_named(files: Files, mode: Path) -> None:
    path, _ = files["c"]
    path.unlink()
    with pytest.raises(StorageError, match=str(path)):
        open_files(files, mode)
