"""Copies of weights lie in large pages where the system has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.arrays import LARGE_PAGE
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cpu.weights import LEAST, read_files
from edgewise_runtime.errors import DeviceError, StorageError

SIZES = {"a": 5000, "b": LEAST + 1, "c": 1}

Files = dict[str, FileIO]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    rng = np.random.default_rng(7)
    for name, size in SIZES.items():
        (tmp_path / name).write_bytes(rng.bytes(size))
    with ExitStack() as opened:
        yield {
            name: opened.enter_context((tmp_path / name).open("rb", buffering=0)) for name in SIZES
        }


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
    arrays = read_files(files, mode)
    for name, file in files.items():
        assert arrays[name].tobytes() == Path(file.name).read_bytes()
        assert arrays[name].ctypes.data % 4096 == 0
        assert not arrays[name].flags.writeable
        assert not is_mapped(Path(file.name))
    assert arrays["a"].ctypes.data % LARGE_PAGE == 0
    assert "hg" in flags_of(arrays["a"])


@pytest.mark.parametrize("setting", ["always madvise [never]\n", None], ids=["never", "none"])
def test_without_large_pages_files_are_read_as_well(
    files: Files, mode: Path, setting: str | None
) -> None:
    mode.unlink() if setting is None else mode.write_text(setting)
    arrays = read_files(files, mode)
    for name, file in files.items():
        assert arrays[name].tobytes() == Path(file.name).read_bytes()
        assert arrays[name].ctypes.data % 4096 == 0
        assert not arrays[name].flags.writeable
        assert not is_mapped(Path(file.name))


def test_what_would_fill_no_large_page_takes_none(files: Files, mode: Path) -> None:
    arrays = read_files({"a": files["a"]}, mode)
    assert arrays["a"].tobytes() == Path(files["a"].name).read_bytes()
    assert "hg" not in flags_of(arrays["a"])


def test_no_files_are_no_arrays(mode: Path) -> None:
    assert read_files({}, mode) == {}


class Changing(FileIO):
    """A file that has another size as soon as it is read."""

    size = 0

    def readinto(self, buffer: Any) -> int:
        os.truncate(str(self.name), self.size)
        return super().readinto(buffer)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_that_changes_its_size_is_refused(files: Files, mode: Path, change: int) -> None:
    size = SIZES["a"]
    with Changing(str(files["a"].name)) as changing:
        changing.size = size + change
        said = rf"a has {size + change} bytes, and had {size}"
        with pytest.raises(DeviceError, match=said) as error:
            read_files({"a": changing}, mode)
    assert error.value.code == "device.file"


def test_a_file_that_cannot_be_read_is_named(files: Files, mode: Path) -> None:
    path = Path(files["c"].name)
    with path.open("ab", buffering=0) as unreadable, pytest.raises(StorageError, match=str(path)):
        read_files({"c": unreadable}, mode)
