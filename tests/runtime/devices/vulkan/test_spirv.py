"""What a module may be before a driver sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.vulkan import probe
from edgewise_runtime.devices.vulkan.spirv import CAPABILITIES, MAX_ID, Module, check_module
from edgewise_runtime.errors import BundleError

Words = list[int]

WRITES = {
    "scale": (True, False, True, False),
    "stamp": (False, True, False),
    "advance": (True, True, True),
    "visit": (True, False),
}


def check(data: bytes, entry: str = "main", writes: tuple[bool, ...] = (True,)) -> Module:
    return check_module("kernels/k.spv", data, entry, writes)


def refusal(data: bytes, **more: Any) -> str:
    with pytest.raises(BundleError) as error:
        check(data, **more)
    assert error.value.code == "bundle.shader"
    assert "kernels/k.spv" in error.value.message
    assert error.value.remedy
    return error.value.message


def instructions(words: Words) -> Iterator[tuple[int, int]]:
    """Where each instruction begins, and its opcode."""
    at = 5
    while at < len(words):
        yield at, words[at] & 0xFFFF
        at += words[at] >> 16


def changed(change: Callable[[Words], object], data: bytes | None = None) -> bytes:
    words = np.frombuffer(data or probe.module(64), "<u4").tolist()
    change(words)
    return np.array(words, "<u4").tobytes()


def replaced(opcode: int, operand: int, old: int, new: int) -> bytes:
    """The probe with an operand changed wherever it is `old` in instructions of a kind."""

    def change(words: Words) -> None:
        found = [
            at + 1 + operand
            for at, code in instructions(words)
            if code == opcode and words[at + 1 + operand] == old
        ]
        assert found
        for at in found:
            words[at] = new

    return changed(change)


def test_a_module_tells_what_it_asks_for() -> None:
    found = check(probe.module(64))
    assert found.threads == (64, 1, 1)
    assert found.wants == {"subgroup basic", "subgroup arithmetic"}
    assert found.shared == 0
    assert found.entry == "main"


@pytest.mark.parametrize("name", WRITES)
def test_modules_of_kernels_are_what_their_plan_says(modules: dict[str, bytes], name: str) -> None:
    found = check(modules[name], "main", WRITES[name])
    assert found.threads[0] in (1, 4, 8)
    # More may be bound, and more be known to be written, than a module has use for.
    check(modules[name], "main", (*(True for _ in WRITES[name]), False))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "has 0 bytes"),
        (b"\x03\x02#\x07", "has 4 bytes"),
        (probe.module(64)[:-1], "which is no SPIR-V"),
        (b"WGSL" * 10, "does not begin as SPIR-V"),
        (probe.module(64)[::-1], "does not begin as SPIR-V"),
        (probe.module(64)[:-4] + b"\xfd\x00\x09\x00", "is cut or damaged"),
        (probe.module(64) + bytes(4), "is cut or damaged"),
        (changed(lambda words: words.__setitem__(1, 0x00010600)), "up to 1.5"),
        (changed(lambda words: words.__setitem__(3, MAX_ID + 1)), "ids, more than"),
    ],
)
def test_what_is_no_module_is_refused(data: bytes, says: str) -> None:
    assert says in refusal(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (replaced(17, 0, 61, 6), "asks for the capability 6"),
        (replaced(15, 0, 5, 0), "no entry point 'main'"),
        (replaced(16, 1, 17, 18), "no workgroup size"),
        (replaced(71, 1, 34, 35), "binds buffer 0 of set None"),
        (replaced(71, 1, 33, 35), "binds buffer None of set 0"),
        (replaced(71, 2, 0, 3), "binds buffer 3 of set 3"),
        (replaced(59, 2, 12, 9), "has push constants"),
        (replaced(59, 2, 12, 2), "has a uniform buffer"),
        (replaced(59, 2, 12, 4), "shared memory that is no array"),
    ],
)
def test_a_module_for_something_else_is_refused(data: bytes, says: str) -> None:
    assert says in refusal(data)


def test_another_entry_point_is_refused() -> None:
    assert "no entry point 'other'" in refusal(probe.module(64), entry="other")


def test_a_write_that_no_plan_knows_of_is_refused(modules: dict[str, bytes]) -> None:
    for name, writes in WRITES.items():
        for at, written in enumerate(writes):
            if written:
                less = tuple(w and i != at for i, w in enumerate(writes))
                message = refusal(modules[name], entry="main", writes=less)
                assert f"may write buffer {at}, which the plan has as read" in message


def test_instructions_without_their_operands_are_refused() -> None:
    for opcode in (15, 16, 17, 43, 59):

        def cut(words: Words, opcode: int = opcode) -> None:
            at = next(at for at, code in instructions(words) if code == opcode)
            del words[at + 1 : at + (words[at] >> 16)]
            words[at] = 1 << 16 | opcode

        assert "operands" in refusal(changed(cut))


def test_whatever_is_damaged_is_refused_or_read_and_nothing_else() -> None:
    rng = np.random.default_rng(71)
    data = np.frombuffer(probe.module(64), "<u4")
    for _ in range(2000):
        words = data.copy()
        for at in rng.integers(0, len(words), 2):
            words[at] = rng.choice([0, 1, 12, 1 << 16, int(rng.integers(1 << 32))])
        with suppress(BundleError):
            assert check(words.tobytes()).entry == "main"


def test_capabilities_ask_for_what_adapters_are_asked_about() -> None:
    from edgewise_runtime.devices.vulkan import adapter

    known = {
        *adapter.FEATURES,
        *adapter.EXTENDED,
        *adapter.SUBGROUP_OPERATIONS.values(),
        *adapter.PROPERTIES.values(),
        "",
    }
    assert set(CAPABILITIES.values()) <= known
