"""What streaming clients saw becomes figures."""

from __future__ import annotations

from statistics import median

import pytest

from streams import (
    Arrival,
    Held,
    Stream,
    behind_long,
    gaps,
    kv_use,
    longest_gap,
    mixed,
    together,
    under_prefill,
)


def stream(asked: float, *arrivals: tuple[float, int]) -> Stream:
    return Stream(asked, [Arrival(at, tokens) for at, tokens in arrivals])


def test_decoding_counts_from_when_the_last_client_has_its_first_token() -> None:
    early = stream(10.0, (11.0, 1), (12.0, 1), (14.0, 2))
    late = stream(10.0, (12.0, 1), (14.0, 2))
    figures = together([early, late])
    assert figures["seconds"] == 4.0
    assert figures["whole_tok_s"] == 7 / 4
    assert figures["decode_tok_s"] == 4 / 2
    assert figures["ttft_s"] == 1.5
    assert figures["itl_s"] == 1.0


def test_a_stream_has_reached_a_number_of_tokens_with_the_piece_that_holds_the_last() -> None:
    burst = stream(0.0, (1.0, 1), (2.0, 4), (3.0, 1))
    assert [burst.reached(n) for n in (1, 2, 5, 6)] == [1.0, 2.0, 2.0, 3.0]


def test_the_tokens_of_a_burst_share_the_time_since_the_one_before() -> None:
    burst = stream(0.0, (1.0, 1), (2.0, 4), (3.0, 1))
    assert gaps([burst], 0.0, 9.0) == [0.25] * 4 + [1.0]


def test_a_gap_belongs_to_the_span_in_which_it_ends() -> None:
    steady = stream(0.0, (1.0, 1), (2.0, 1), (4.0, 1), (7.0, 1))
    assert gaps([steady], 2.0, 4.0) == [2.0]
    assert gaps([steady], 4.0, 7.0) == [3.0]
    assert gaps([steady], 0.0, 1.0) == []


@pytest.mark.parametrize(
    ("arrivals", "longest"),
    [
        pytest.param([(1.0, 1), (2.0, 1), (5.0, 1)], 3.0, id="between two pieces"),
        pytest.param([(4.0, 1), (5.0, 1)], 4.0, id="before the first"),
        pytest.param([(1.0, 1)], 4.0, id="after the last"),
        pytest.param([], 5.0, id="nothing came"),
        pytest.param([(0.0, 1), (9.0, 1)], 5.0, id="nothing came within the span"),
    ],
)
def test_silence_at_either_end_of_a_span_counts(
    arrivals: list[tuple[float, int]], longest: float
) -> None:
    busy = stream(0.0, *((float(i), 1) for i in range(6)))
    assert longest_gap([busy, stream(0.0, *arrivals)], 0.0, 5.0) == longest


def test_streams_under_a_long_prompt_are_measured_beside_themselves_before_it() -> None:
    steady = stream(0.0, *((i / 10, 1) for i in range(1, 21)), *((i, 1) for i in (2.5, 3.0, 4.0)))
    answer = under_prefill([steady], 0.0, stream(2.0, (4.0, 1)))
    assert answer["ttft_s"] == 2.0
    assert answer["idle_itl_s"] == pytest.approx(0.1)
    assert (answer["busy_itl_s"], answer["busy_p90_s"]) == (0.5, pytest.approx(0.9))
    assert answer["busy_longest_s"] == 1.0
    assert answer["itl_under_prefill"] == pytest.approx(5.0)


def test_short_prompts_behind_a_long_one_are_measured_beside_either_alone() -> None:
    alone = [stream(0.0, (at, 1)) for at in (0.1, 0.2, 0.9)]
    behind = [stream(5.0, (5.0 + wait, 1)) for wait in (1.0, 3.0, 2.0)]
    answer = behind_long(alone, behind, stream(1.0, (5.0, 1)), stream(4.0, (9.0, 1)))
    assert answer == {
        "seconds": 5.0,
        "shorts": 3,
        "short_s": 2.0,
        "short_longest_s": 3.0,
        "short_alone_s": 0.2,
        "short_over_alone": 10.0,
        "long_s": 5.0,
        "long_alone_s": 4.0,
        "long_over_alone": 1.25,
    }


def test_requests_of_mixed_lengths_are_the_same_for_a_seed_and_fit() -> None:
    asks = mixed(500, seed=1, most=1024)
    assert asks == mixed(500, seed=1, most=1024) != mixed(500, seed=2, most=1024)
    assert all(ask.prompt >= 4 and ask.tokens >= 4 for ask in asks)
    assert max(ask.prompt + ask.tokens for ask in asks) == 1024
    assert 130 < median(ask.prompt for ask in asks) < 190
    assert 65 < median(ask.tokens for ask in asks) < 95


def test_kv_in_use_is_averaged_over_steps_that_ran_something() -> None:
    steps = [Held(8, 16, 1), Held(48, 48, 2), Held(0, 0, 0), Held(0, 16, 0), Held(0, 0, 1)]
    figures = kv_use(steps, context=64)
    assert figures["kv_live"] == (0.5 + 1.0) / 2
    assert figures["kv_preallocated"] == (8 / 64 + 48 / 128) / 2
    assert (figures["kv_sequences"], figures["steps"]) == (1.5, 2)
