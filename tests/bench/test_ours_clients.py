"""The engine benchmark's questions, asked of edgewise on a tiny model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.settings import Settings
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.abi import PAGE_TOKENS
from host_time import HostTime
from ours_clients import ALONE, PAIRS, Edgewise
from streams import mixed

pytestmark = pytest.mark.landing


@pytest.fixture
def host() -> HostTime:
    return HostTime()


@pytest.fixture
def engine(bundles: Callable[..., Path], host: HostTime) -> Iterator[Engine]:
    bundle = bundles("llama-gqa2-tied-linear")
    # No more pages than the sequences have: tests fill them.
    settings = Settings(prefix_memory=0)
    with host.watching(), Engine(bundle, device="cpu", threads=1, settings=settings) as loaded:
        yield loaded


@pytest.fixture
def asked(engine: Engine, host: HostTime) -> Edgewise:
    return Edgewise(engine, PAGE_TOKENS, host)


def found(engine: Engine) -> int:
    """Prompt tokens that were found in pages kept on the device."""
    tokens: int = engine.metrics()["prefix_cache_hits_total"]["device"]
    return tokens


def answered(engine: Engine) -> int:
    """Requests that have ended as they should."""
    ended: dict[str, int] = engine.metrics()["request_success_total"]
    return ended["length"]


def test_clients_get_all_their_tokens_and_share_nothing(engine: Engine, asked: Edgewise) -> None:
    for clients in (1, 5):
        answer = asked.clients(clients, 40, 6)
        assert answer["whole_tok_s"] * answer["seconds"] == pytest.approx(clients * 6)
        assert answer["decode_tok_s"] > 0
        assert 0 < answer["ttft_s"] < answer["seconds"]
    assert found(engine) == 0


def test_only_the_second_prompt_finds_a_known_prefix(engine: Engine, asked: Edgewise) -> None:
    answer = asked.prefix(100, 10)
    assert answer["warm_over_cold"] == answer["warm_s"] / answer["cold_s"] > 0
    # Six full pages, and of the seventh the four tokens that are the same.
    assert found(engine) == 100


def test_short_prompts_come_while_a_long_one_is_computed_and_share_nothing(
    engine: Engine, asked: Edgewise
) -> None:
    answer = asked.short_behind_long(20, engine.context - 1)
    assert answered(engine) == ALONE + 2 + answer["shorts"]
    assert answer["short_steps"] >= 1
    assert answer["short_over_alone"] == answer["short_s"] / answer["short_alone_s"] > 0
    assert answer["long_over_alone"] == answer["long_s"] / answer["long_alone_s"] > 0
    assert found(engine) == 0


def test_a_prompt_comes_in_beside_streams_once_the_memory_is_full(
    engine: Engine, asked: Edgewise
) -> None:
    answer = asked.evict(2, 16, 4, 30)
    slots = engine.metrics()["kv_pages"] * PAGE_TOKENS
    filled = engine.metrics()["prompt_tokens_total"] - (2 * 16 + 30)
    assert slots <= filled < slots + engine.context
    assert answer["evict_stall_ms"] > 0


def test_a_memory_that_is_full_stays_so(engine: Engine, asked: Edgewise) -> None:
    asked.evict(1, 16, 4, 30)
    before = engine.metrics()["prompt_tokens_total"]
    asked.evict(1, 16, 4, 30)
    # The stream, what comes in, and what is asked to see how much room there is.
    asked_for = 16 + 30 + engine.context // 2
    assert engine.metrics()["prompt_tokens_total"] - before == asked_for


def test_answers_are_compared_in_pairs_for_the_time_beside_kernels(
    engine: Engine, asked: Edgewise, host: HostTime
) -> None:
    asked.host(2, 16, 4, 24)
    before = answered(engine)
    answer = asked.host(2, 16, 4, 24)
    # The memory is full: one is asked to see that, beside the answers that are compared.
    assert answered(engine) - before == PAIRS * 2 * 2 + 1
    assert set(answer) == {"host_us_per_token", "threads_us_per_token"}
    assert sum(host.kernels_ns.values()) > 0


def test_requests_of_mixed_lengths_are_served_and_their_kv_is_looked_at(
    engine: Engine, asked: Edgewise
) -> None:
    answer = asked.mixed(12, 1)
    tokens = sum(ask.tokens for ask in mixed(12, 1, engine.context // 4))
    assert answer["whole_tok_s"] * answer["seconds"] == pytest.approx(tokens)
    assert 0 < answer["kv_preallocated"] < answer["kv_live"] <= 1
    assert answer["steps"] > 12
    # One where each is answered before the next has come, as a tiny model may.
    assert 1 <= answer["kv_sequences"] <= engine.model.max_batch


def test_what_ended_a_stream_is_raised_where_it_is_read(engine: Engine, asked: Edgewise) -> None:
    with pytest.raises(InputError, match="the context holds"):
        asked.clients(1, engine.context, 2)
