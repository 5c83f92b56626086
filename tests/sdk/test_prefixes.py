"""What requests share: prefixes on the device, by salt, pinned and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.settings import KEPT_BYTES, kept_bytes
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import EngineError, InputError
from tests.sdk.gate import PATIENCE

BEGIN = [(11 * i) % 300 for i in range(96)]
OPTIONS: dict[str, Any] = {"max_tokens": 6, "temperature": 0, "ignore_eos": True}

PAGE_BYTES = 1 << 13
"""Of the bundle that is asked here."""


@pytest.fixture
def fresh(bundle: Path) -> Iterator[Engine]:
    """An engine that has seen no prompt."""
    with Engine(bundle) as engine:
        yield engine


def cached(engine: Engine, prompt: list[int], **options: Any) -> int:
    return engine.generate(prompt, **OPTIONS, **options).usage.cached_tokens


def test_a_prompt_that_begins_like_another_finds_its_beginning(
    fresh: Engine, engine: Engine
) -> None:
    assert cached(fresh, [*BEGIN, 1, 2, 3]) == 0
    assert cached(fresh, [*BEGIN, 4, 5]) == 96
    assert cached(fresh, [*BEGIN[:50], 9]) == 50
    assert cached(fresh, [9, *BEGIN]) == 0
    for prompt in ([*BEGIN, 4, 5], [*BEGIN[:50], 9]):
        found, expected = (each.generate(prompt, **OPTIONS) for each in (fresh, engine))
        assert found.token_ids == expected.token_ids
    hits = fresh.metrics()["prefix_cache_hits_total"]
    assert hits["device"] >= 96 + 50
    assert hits["memory"] == hits["disk"] == 0


def test_a_conversation_goes_on_from_its_last_turn(fresh: Engine) -> None:
    messages = [{"role": "user", "content": "Tell me of the fox. " * 3}]
    answer = fresh.chat(messages, **OPTIONS)
    assert answer.usage.cached_tokens == 0
    messages += [
        {"role": "assistant", "content": answer.text},
        {"role": "user", "content": "And then?"},
    ]
    second = fresh.chat(messages, **OPTIONS)
    assert second.usage.cached_tokens >= answer.usage.prompt_tokens // 16 * 16


def test_requests_with_different_salts_share_nothing(fresh: Engine) -> None:
    assert cached(fresh, BEGIN, cache_salt="one") == 0
    assert cached(fresh, BEGIN, cache_salt="other") == 0
    assert cached(fresh, BEGIN) == 0
    assert cached(fresh, BEGIN, cache_salt="one") > 0
    tokens = {
        fresh.generate(BEGIN, **OPTIONS, cache_salt=salt).token_ids for salt in ("one", None, "3")
    }
    assert len(tokens) == 1


def test_what_is_forgotten_is_computed_again(fresh: Engine) -> None:
    cached(fresh, BEGIN)
    fresh.forget()
    assert cached(fresh, BEGIN) == 0
    assert cached(fresh, BEGIN) > 0


def test_what_is_pinned_is_not_forgotten(fresh: Engine) -> None:
    assert fresh.pin(BEGIN[:90]) == 80
    assert fresh.pin(BEGIN[:90]) == 80
    fresh.forget()
    assert cached(fresh, BEGIN) == 80
    fresh.forget()
    fresh.unpin(BEGIN[:90])
    fresh.unpin(BEGIN[:90])
    fresh.forget()
    assert cached(fresh, BEGIN) == 0


def test_what_is_pinned_with_a_salt_is_there_for_those_that_say_it(fresh: Engine) -> None:
    fresh.forget()
    assert fresh.pin(BEGIN[:90], cache_salt="one") == 80
    fresh.forget()
    assert [cached(fresh, BEGIN, cache_salt=salt) for salt in (None, "two", "one")] == [0, 0, 80]
    fresh.forget()
    fresh.unpin(BEGIN[:90])
    fresh.forget()
    assert cached(fresh, BEGIN, cache_salt="one") == 80, "that was another pin"
    fresh.unpin(BEGIN[:90], cache_salt="one")
    fresh.forget()
    assert cached(fresh, BEGIN, cache_salt="one") == 0
    with pytest.raises(InputError, match="cache_salt is ''"):
        fresh.pin(BEGIN, cache_salt="")


def test_a_pinned_prefix_outlasts_what_needs_its_room(bundle: Path) -> None:
    with Engine(bundle, context=128, settings=Settings(prefix_memory=0)) as engine:
        assert engine.pin(BEGIN[:64]) == 64
        for first in range(engine.metrics()["kv_pages"] // 4):
            engine.generate([first, *BEGIN, 7], max_tokens=20, ignore_eos=True)
        assert cached(engine, BEGIN) == 64


class Elsewhere(CpuDevice):
    """A device with memory of its own."""

    host_memory = False


def test_prefixes_without_room_come_back_from_memory(bundle: Path) -> None:
    with Engine(bundle, context=128, device=Elsewhere()) as engine:
        first = engine.generate(BEGIN, **OPTIONS)
        for other in range(1, 30):
            engine.generate([other, *BEGIN, 7], max_tokens=20, ignore_eos=True)
        again = engine.generate(BEGIN, **OPTIONS)
        assert again.usage.cached_tokens >= 80
        assert again.token_ids == first.token_ids
        assert engine.metrics()["kv_pages_restored_total"] > 0


def test_pages_that_are_in_memory_are_not_copied_there(bundle: Path) -> None:
    settings = Settings(prefix_device=64 * PAGE_BYTES, prefix_memory=1 << 30)
    with Engine(bundle, context=128, settings=settings) as engine:
        engine.generate([1], max_tokens=1)
        for other in range(1, engine.metrics()["kv_pages"] // 4):
            engine.generate([other, *BEGIN, 7], max_tokens=20, ignore_eos=True)
        counted = engine.metrics()
        assert (counted["kv_pages_spilled_total"], counted["kv_pages_restored_total"]) == (0, 0)


def test_no_more_is_kept_than_may_be(bundle: Path) -> None:
    settings = Settings(prefix_device=15 * PAGE_BYTES + 1)
    with Engine(bundle, settings=settings) as engine:
        for first in range(5):
            engine.generate([first, *BEGIN], max_tokens=1)
            counted = engine.metrics()
            assert counted["prefix_cache_bytes"] <= counted["prefix_cache_limit_bytes"]
        # Two prompts of 7 pages, and the first page of another.
        assert counted["prefix_cache_bytes"] == 15 * PAGE_BYTES
        assert [cached(engine, [first, *BEGIN]) for first in (4, 3, 0)] == [96, 96, 0]


def test_what_is_pinned_is_kept_beside_what_may_be(bundle: Path) -> None:
    with Engine(bundle, settings=Settings(prefix_device=0)) as engine:
        assert engine.pin(BEGIN) == 96
        assert cached(engine, [*BEGIN, 7]) == 96
        assert cached(engine, [8, *BEGIN]) == cached(engine, [8, *BEGIN]) == 0
        assert engine.metrics()["prefix_cache_bytes"] == 0
        engine.unpin(BEGIN)
        assert cached(engine, [*BEGIN, 7]) == 0


def test_what_is_kept_beyond_the_bound_is_stored_while_nobody_asks(bundle: Path) -> None:
    settings = Settings(prefix_device=2 * PAGE_BYTES)
    with Engine(bundle, settings=settings, device=Elsewhere()) as engine:
        for first in range(3):
            engine.generate([first, *BEGIN], max_tokens=1)
        began = monotonic()
        while engine.metrics()["prefix_cache_bytes"] > 2 * PAGE_BYTES:
            assert monotonic() < began + PATIENCE
            sleep(0.001)
        assert engine.metrics()["kv_pages_spilled_total"] >= 3 * 6 - 2
        assert cached(engine, [0, *BEGIN]) == 96


@pytest.mark.parametrize(
    ("device", "asked", "expected"),
    [
        (CpuDevice, Settings(), (KEPT_BYTES, 512 << 20)),
        (CpuDevice, Settings(prefix_memory=7), (KEPT_BYTES, 7)),
        (CpuDevice, Settings(prefix_device=5), (5, 5)),
        (Elsewhere, Settings(), (None, 0)),
        (Elsewhere, Settings(prefix_device=5), (5, 0)),
    ],
)
def test_where_pages_take_memory_as_they_are_written_there_is_a_bound(
    device: Callable[[], CpuDevice], asked: Settings, expected: tuple[int | None, int]
) -> None:
    assert kept_bytes(asked, device()) == expected


def test_what_is_too_short_for_a_page_is_not_kept(fresh: Engine) -> None:
    assert fresh.pin(BEGIN[:15]) == 0


@pytest.mark.parametrize(
    ("prompt", "code"),
    [([], "input.empty"), ([1] * 256, "input.context"), ([320], "input.token")],
)
def test_what_cannot_be_pinned_is_refused(engine: Engine, prompt: list[int], code: str) -> None:
    with pytest.raises(InputError) as caught:
        engine.pin(prompt)
    assert caught.value.code == code


def test_a_request_that_pins_leave_no_room_for_says_so(bundle: Path) -> None:
    with Engine(bundle, context=128, settings=Settings(prefix_memory=0)) as engine:
        engine.generate([1], max_tokens=1)
        for first in range(engine.metrics()["kv_pages"] // 7):
            engine.pin([first, *BEGIN, *BEGIN[:16]])
        with pytest.raises(EngineError, match="Unpin") as caught:
            engine.generate([299, *BEGIN], max_tokens=20, ignore_eos=True)
        assert caught.value.code == "engine.memory"
        engine.unpin([0, *BEGIN, *BEGIN[:16]])
        assert engine.generate([299, *BEGIN[:40]], **OPTIONS).token_ids
