"""A compiled library is loaded from a copy, wherever there is room for one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from edgewise_runtime.devices.cpu.tvm_library import load_library
from edgewise_runtime.errors import DeviceError, StorageError
from tests.conftest import BundleFactory
from tests.disks import file_sizes_limited


def test_the_cache_serves_where_the_temporary_folder_does_not(
    bundles: BundleFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library,) = bundles("llama-gqa2-tied-linear").rglob("kernels.so")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert load_library(library.read_bytes(), "a/kernels.so") is not None


def test_without_room_anywhere_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    with file_sizes_limited(0), pytest.raises(StorageError) as error:
        load_library(b"library", "a/kernels.so")
    assert error.value.code == "storage.temporary"
    assert error.value.remedy


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"a/kernels\.so could not be loaded") as error:
        load_library(b"no library", "a/kernels.so")
    assert error.value.code == "device.library"


@pytest.mark.parametrize("name", [b"full", b"no utf-8 \xff"])
def test_a_folder_that_is_no_place_for_a_copy_is_named_with_the_variable(
    name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    limit = 4 if name == b"full" else 1 << 20
    with file_sizes_limited(limit), pytest.raises((StorageError, DeviceError)) as error:
        load_library(b"library", "a/kernels.so")
    assert "TMPDIR" in error.value.remedy
    assert list(folder.iterdir()) == []
