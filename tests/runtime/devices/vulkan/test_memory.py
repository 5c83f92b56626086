"""How memory is divided and made visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from edgewise_runtime.devices.vulkan.api import Objects
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.vulkan.gpu import close_gpus, open_gpu
from edgewise_runtime.devices.vulkan.memory import (
    CACHED,
    COHERENT,
    LOCAL,
    TO_HOST,
    VISIBLE,
    Counters,
    Window,
    divide,
    memory_type,
    whole_atoms,
)
from edgewise_runtime.format.bundle import Bundle

Make = Callable[..., Bundle]


@pytest.mark.parametrize(
    ("needs", "most", "places", "blocks"),
    [
        ([], 100, [], []),
        ([(10, 4), (10, 16), (4, 4)], 100, [(0, 0), (0, 16), (0, 28)], [32]),
        ([(60, 16), (60, 16)], 100, [(0, 0), (1, 0)], [60, 60]),
        ([(60, 64), (36, 64), (36, 64)], 100, [(0, 0), (0, 64), (1, 0)], [100, 36]),
        ([(100, 256), (1, 256)], 100, [(0, 0), (1, 0)], [100, 1]),
    ],
)
def test_buffers_of_an_arena_lie_one_after_another_in_few_blocks(
    needs: list[tuple[int, int]], most: int, places: list[tuple[int, int]], blocks: list[int]
) -> None:
    assert divide(needs, most) == (places, blocks)


def test_pieces_lie_aligned_inside_their_blocks_and_apart() -> None:
    rng = np.random.default_rng(71)
    for _ in range(100):
        needs = [(int(size), 1 << int(rng.integers(0, 9))) for size in rng.integers(1, 900, 30)]
        places, blocks = divide(needs, 1000)
        taken: dict[int, list[tuple[int, int]]] = {}
        for (size, alignment), (block, start) in zip(needs, places, strict=True):
            assert start % alignment == 0
            assert start + size <= blocks[block] <= 1000
            taken.setdefault(block, []).append((start, start + size))
        for pieces in taken.values():
            assert all(end <= start for (_, end), (start, _) in pairwise(pieces))


def test_memory_is_the_best_that_a_buffer_may_have() -> None:
    types = [0, LOCAL, VISIBLE | COHERENT, VISIBLE | CACHED, VISIBLE | COHERENT | CACHED]
    assert memory_type(types, 0b11111, TO_HOST) == 4
    assert memory_type(types, 0b01111, TO_HOST) == 3
    assert memory_type(types, 0b00111, TO_HOST) == 2
    assert memory_type(types, 0b00011, TO_HOST) is None
    assert memory_type(types, 0b11111, (LOCAL, 0)) == 1
    assert memory_type(types, 0b11101, (LOCAL, 0)) == 0


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [(0, 1, (0, 64)), (64, 64, (64, 64)), (63, 2, (0, 128)), (130, 1, (128, 64))],
)
def test_memory_is_made_visible_in_whole_pieces(
    start: int, size: int, expected: tuple[int, int]
) -> None:
    assert whole_atoms(start, size, 64) == expected


def test_memory_that_is_not_coherent_is_told_of_every_piece(vulkan: VulkanDevice) -> None:
    gpu = open_gpu(vulkan.adapter, frozenset())
    objects = Objects(gpu.api, gpu.device)
    window = Window(gpu, objects, Counters(), 1000, TO_HOST)
    assert window.size == 1024
    # Telling is allowed where it is not needed, too, and the validation layer knows the rules.
    window.coherent = False
    window.bytes[:] = 7
    for start, size in ((0, 0), (0, 1), (1000, 24), (100, 900)):
        window.show(start, size)
        assert window.look(start, size).tolist() == [7] * size
    window.destroy()
    assert {kind for kind, _ in objects._made} == set()


def test_an_arena_beyond_what_may_be_taken_at_once_is_several_blocks(
    vulkan: VulkanDevice, make_vulkan: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = replace(vulkan.adapter.limits, allocation=1 << 21)
    monkeypatch.setattr(vulkan, "adapter", replace(vulkan.adapter, limits=limits))
    close_gpus()
    with vulkan.load(make_vulkan(), load_symbols={"pages": 1 << 12}, trust=True) as program:
        blocks = {name: len(arena.blocks) for name, arena in program._memory.arenas.items()}
        # The logits fill a block, and `x`, `table`, `step` and `seen` another one.
        assert blocks == {"params": 1, "state": 1, "scratch": 1, "staging": 2}
        x = np.arange(32, dtype=np.float32).reshape(4, 8)
        program.write("x", x)
        assert np.array_equal(program.read("x"), x)
        assert not program.read("logits").any()
    close_gpus()
