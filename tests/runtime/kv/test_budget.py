"""The page pool is as large as the batch at full context wants, or as memory allows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.kv.budget import USUAL_CONTEXT, pool_pages, weight_bytes


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


@pytest.mark.landing
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
    ("spare_pages", "largest", "expected"),
    [
        (None, None, 128),
        (None, 10, 10),
        (1000, None, 128),
        (100, None, 50),
        (20, None, 10),
        (4, None, 2),
        (2, None, 2),
        (100, 7, 7),
    ],
)
def test_where_fewer_tokens_will_do_there_are_as_many_as_there_is_room_for(
    bundle: Bundle, spare_pages: int | None, largest: int | None, expected: int
) -> None:
    """A sequence gets more than its share of the memory only where all of it was asked for."""
    available = None if spare_pages is None else weights(bundle) + spare_pages * page_bytes(bundle)
    layer = page_bytes(bundle) // 2
    program = bundle.manifest.programs[0]
    pages = pool_pages(
        bundle, program, 256, available, None if largest is None else largest * layer, least=32
    )
    assert pages == expected


def test_a_device_that_does_not_tell_is_asked_for_the_usual_context_of_each(
    bundle: Bundle,
) -> None:
    """A GPU gives the memory at once: not for 8 sequences of 131,072 tokens that nobody has."""
    program = bundle.manifest.programs[0]
    assert pool_pages(bundle, program, 131072, None) == 131072 // 16
    assert pool_pages(bundle, program, 8192, None) == 8 * USUAL_CONTEXT // 16
    plenty = weights(bundle) + (1 << 20) * page_bytes(bundle)
    assert pool_pages(bundle, program, 8192, plenty) == 8 * 8192 // 16


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
