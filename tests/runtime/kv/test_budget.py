"""The page pool is as large as the batch at full context wants, or as memory allows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.kv.budget import pool_pages, weight_bytes


@pytest.fixture(scope="module")
def bundle(bundles: Callable[..., Path]) -> Bundle:
    """Two layers, two KV heads of 32 in float16; context 256, batch 8."""
    return Bundle.open(bundles("llama-gqa2-tied-linear"))


def page_bytes(bundle: Bundle) -> int:
    (size,) = bundle.manifest.programs[0].page_bytes
    return size


def weights(bundle: Bundle) -> int:
    return weight_bytes(bundle, bundle.manifest.programs[0])


def test_a_page_holds_keys_and_values_of_every_layer(bundle: Bundle) -> None:
    assert page_bytes(bundle) == 2 * (2 * 2 * 16 * 32 * 2)


def test_a_page_of_codes_takes_half_of_float16_and_a_word_a_token_and_head(
    bundle: Bundle, bundles: Callable[..., Path]
) -> None:
    coded = Bundle.open(bundles("llama-gqa2-tied-linear", kv="int8"))
    half = page_bytes(bundle) // 2
    program = coded.manifest.programs[0]
    assert page_bytes(coded) == half + 2 * (2 * 16 * 4)
    with CpuDevice(threads=1).load(coded, program.id, load_symbols={"pages": 3}) as loaded:
        assert loaded.page_bytes == page_bytes(coded)


@pytest.mark.parametrize(
    ("context", "spare_pages", "expected"),
    [
        (256, None, 128),
        (250, None, 128),
        (16, None, 8),
        (256, 1000, 128),
        (256, 100, 50),
        (256, 16, 16),
        (256, 20, 16),
        (17, 4, 2),
    ],
)
def test_pages_are_enough_for_the_batch_or_for_one(
    bundle: Bundle, context: int, spare_pages: int | None, expected: int
) -> None:
    size = page_bytes(bundle)
    available = None if spare_pages is None else weights(bundle) + spare_pages * size
    assert pool_pages(bundle, bundle.manifest.programs[0], context, available) == expected


@pytest.mark.parametrize(
    ("beside", "spare_pages", "expected"),
    [(0, None, 128), (40, None, 168), (1 << 40, None, 1 << 16), (40, 300, 150), (40, 1000, 168)],
)
def test_pages_beside_those_of_the_batch_come_out_of_the_same_share(
    bundle: Bundle, beside: int, spare_pages: int | None, expected: int
) -> None:
    size, program = page_bytes(bundle), bundle.manifest.programs[0]
    available = None if spare_pages is None else weights(bundle) + spare_pages * size
    assert pool_pages(bundle, program, 256, available, beside=beside * size) == expected


@pytest.mark.parametrize("pages", [-1000, 0, 15])
def test_too_little_memory_for_one_sequence_is_said(bundle: Bundle, pages: int) -> None:
    program = bundle.manifest.programs[0]
    available = weights(bundle) + pages * page_bytes(bundle)
    with pytest.raises(DeviceError, match="256") as caught:
        pool_pages(bundle, program, 256, available)
    assert caught.value.code == "device.memory"
    assert "context" in caught.value.remedy


def test_this_machine_has_room_for_the_tiny_bundle(bundle: Bundle) -> None:
    free = CpuDevice().available_memory()
    assert pool_pages(bundle, bundle.manifest.programs[0], 256, free) == 128
