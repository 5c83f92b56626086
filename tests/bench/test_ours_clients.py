"""The engine benchmark's questions, asked of edgewise on a tiny model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.abi import PAGE_TOKENS
from ours_clients import Edgewise
from streams import mixed


@pytest.fixture
def engine(bundles: Callable[..., Path]) -> Iterator[Engine]:
    with Engine(bundles("llama-gqa2-tied-linear"), device="cpu", threads=1) as loaded:
        yield loaded


def found(engine: Engine) -> int:
    """Prompt tokens that were found in pages kept on the device."""
    tokens: int = engine.metrics()["prefix_cache_hits_total"]["device"]
    return tokens


def test_clients_get_all_their_tokens_and_share_nothing(engine: Engine) -> None:
    asked = Edgewise(engine, PAGE_TOKENS)
    for clients in (1, 5):
        answer = asked.clients(clients, 40, 6)
        assert answer["whole_tok_s"] * answer["seconds"] == pytest.approx(clients * 6)
        assert answer["decode_tok_s"] > 0
        assert 0 < answer["ttft_s"] < answer["seconds"]
    assert found(engine) == 0


def test_only_the_second_prompt_finds_a_known_prefix(engine: Engine) -> None:
    answer = Edgewise(engine, PAGE_TOKENS).prefix(100, 10)
    assert answer["warm_over_cold"] == answer["warm_s"] / answer["cold_s"] > 0
    # Six full pages, and of the seventh the four tokens that are the same.
    assert found(engine) == 100


def test_requests_of_mixed_lengths_are_served_and_their_kv_is_looked_at(engine: Engine) -> None:
    answer = Edgewise(engine, PAGE_TOKENS).mixed(12, 1)
    tokens = sum(ask.tokens for ask in mixed(12, 1, engine.context // 4))
    assert answer["whole_tok_s"] * answer["seconds"] == pytest.approx(tokens)
    assert 0 < answer["kv_preallocated"] < answer["kv_live"] <= 1
    assert answer["steps"] > 12
    assert 1 < answer["kv_sequences"] <= engine.model.max_batch


def test_what_ended_a_stream_is_raised_where_it_is_read(engine: Engine) -> None:
    with pytest.raises(InputError, match="the context holds"):
        Edgewise(engine, PAGE_TOKENS).clients(1, engine.context, 2)
