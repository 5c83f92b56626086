"""Pipelines on disk: kept for the next process, and never believed where anything is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise_runtime.devices.vulkan import cache
from edgewise_runtime.devices.vulkan.adapter import Adapter
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.vulkan.gpu import close_gpus
from edgewise_runtime.format.bundle import Bundle

Make = Callable[..., Bundle]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache folder of the test's own, and a device that has compiled nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    close_gpus()
    yield
    close_gpus()


def load(vulkan: VulkanDevice, bundle: Bundle) -> int:
    """Load a program; how many pipelines were made for it."""
    with vulkan.load(bundle, load_symbols={"pages": 4}, trust=True) as program:
        return program.counters.pipelines


def data(adapter: Adapter, more: bytes = b"what the driver keeps") -> bytes:
    vendor, device, driver = adapter.cache
    head = b"".join(n.to_bytes(4, "little") for n in (32, 1, vendor, device))
    return head + driver + more


def test_what_was_compiled_is_kept_and_found_again(vulkan: VulkanDevice, make_vulkan: Make) -> None:
    assert load(vulkan, make_vulkan()) == 4
    path = cache.place(vulkan.adapter)
    kept = path.read_bytes()
    assert cache.belongs(cache.read(vulkan.adapter), vulkan.adapter)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    # In one process nothing is compiled twice, and nothing is written for it.
    path.unlink()
    assert load(vulkan, make_vulkan()) == 0
    assert not path.exists()
    close_gpus()
    path.write_bytes(kept)
    assert load(vulkan, make_vulkan()) == 4


def test_what_is_written_is_what_is_read(vulkan: VulkanDevice) -> None:
    assert cache.read(vulkan.adapter) == b""
    cache.write(vulkan.adapter, data(vulkan.adapter))
    assert cache.read(vulkan.adapter) == data(vulkan.adapter)


@pytest.mark.parametrize("at", [0, 31, 32, 36, 40, 44, 60, 64, -1])
def test_a_damaged_file_is_no_file(vulkan: VulkanDevice, make_vulkan: Make, at: int) -> None:
    cache.write(vulkan.adapter, data(vulkan.adapter))
    path = cache.place(vulkan.adapter)
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)
    assert cache.read(vulkan.adapter) == b""
    assert load(vulkan, make_vulkan()) == 4
    assert cache.read(vulkan.adapter) != b""


@pytest.mark.parametrize("length", [0, 1, 32, 40, 63])
def test_a_file_that_was_cut_is_no_file(vulkan: VulkanDevice, length: int) -> None:
    cache.write(vulkan.adapter, data(vulkan.adapter))
    path = cache.place(vulkan.adapter)
    path.write_bytes(path.read_bytes()[:length])
    assert cache.read(vulkan.adapter) == b""


def test_data_of_another_driver_are_not_used_though_their_digest_is_right(
    vulkan: VulkanDevice,
) -> None:
    vendor, device, driver = vulkan.adapter.cache
    path = cache.place(vulkan.adapter)
    path.parent.mkdir(parents=True)
    for other in (
        (vendor + 1, device, driver),
        (vendor, device + 1, driver),
        (vendor, device, bytes(16)),
    ):
        foreign = data(replace(vulkan.adapter, cache=other))
        path.write_bytes(hashlib.sha256(foreign).digest() + foreign)
        assert cache.read(vulkan.adapter) == b""
        cache.write(vulkan.adapter, foreign)
        assert path.read_bytes()[32:] == foreign
    short = data(vulkan.adapter)[:31]
    path.write_bytes(hashlib.sha256(short).digest() + short)
    assert cache.read(vulkan.adapter) == b""


def test_a_huge_file_is_not_read(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write(vulkan.adapter, data(vulkan.adapter))
    monkeypatch.setattr(cache, "MOST", 64)
    assert cache.read(vulkan.adapter) == b""
    cache.write(vulkan.adapter, data(vulkan.adapter, bytes(100)))
    assert cache.place(vulkan.adapter).read_bytes()[32:] == data(vulkan.adapter)


def test_where_nothing_can_be_kept_programs_load_all_the_same(
    vulkan: VulkanDevice, make_vulkan: Make, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert load(vulkan, make_vulkan()) == 4
