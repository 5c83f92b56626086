"""How the engine's benchmark asks, and what it makes of the answers."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import Effort, ask_all, ask_once, chosen
from engine_figures import HEADLINE, headline, summary, table
from engine_questions import CLIENTS, QUESTIONS
from protocol import Answer, Command, Driver

ONCE = Effort(rounds=1, most=3, rounds_of_slow=1, most_of_slow=2, idle_wait=0.0)


Figures = dict[str, dict[str, float]]


def figures(speed: float, warm_s: float, short_s: float) -> Figures:
    """Of an engine whose speed doubles with twice the clients, whole half of it."""
    clients = {
        f"clients_{n}": {"decode_tok_s": n * speed, "whole_tok_s": n * speed / 2} for n in CLIENTS
    }
    prefix = {"cold_s": 2.0, "warm_s": warm_s, "warm_over_cold": warm_s / 2.0}
    behind = {"short_s": short_s, "short_over_alone": 10 * short_s, "long_over_alone": 1.05}
    return {**clients, "prefix": prefix, "short_behind_long": behind}


def ours() -> Figures:
    mine = figures(30.0, 0.1, 2.0)
    mine["short_behind_long"]["short_steps"] = 2.0
    return {
        **mine,
        "long_prompt": {"itl_under_prefill": 1.5, "ttft_under_prefill": 1.2},
        "mixed": {"kv_live": 0.96, "kv_preallocated": 0.06},
        "evict": {"evict_stall_ms": 420.0},
    }


def everyone() -> dict[str, Figures]:
    demo = {f"host_{n}": {"host_us_per_token": 80.0 / n} for n in (1, 8)}
    return {"ours": ours(), "demo": demo, "peer": figures(20.0, 0.2, 5.0)}


def test_the_headline_is_ours_over_one_client_and_over_the_peer() -> None:
    found = headline(everyone())
    assert (found["scaling_4"], found["scaling_8"], found["scaling_whole_8"]) == (4.0, 8.0, 8.0)
    assert {found[f"vs_llama_{w}{n}"] for w in ("", "whole_") for n in CLIENTS} == {1.5}
    assert (found["warm_over_cold"], found["llama_warm_over_cold"]) == (0.05, 0.1)
    assert (found["vs_llama_cold"], found["vs_llama_warm"]) == (1.0, 2.0)
    assert (found["itl_under_prefill"], found["ttft_under_prefill"]) == (1.5, 1.2)
    assert (found["kv_live"], found["kv_preallocated"]) == (0.96, 0.06)


def test_the_headline_says_who_waits_and_what_a_token_takes() -> None:
    found = headline(everyone())
    assert (found["short_behind_long"], found["short_behind_long_s"]) == (20.0, 2.0)
    assert (found["short_behind_long_steps"], found["long_beside_short"]) == (2.0, 1.05)
    assert (found["llama_short_behind_long"], found["vs_llama_short_behind_long"]) == (50.0, 2.5)
    assert (found["evict_stall_ms"], found["llama_long_beside_short"]) == (420.0, 1.05)
    assert (found["host_us_per_token"], found["host_us_per_token_8"]) == (80.0, 10.0)


def test_every_figure_of_the_headline_is_of_an_engine_that_is_asked_for_it() -> None:
    assert set(headline(everyone())) == set(HEADLINE)
    for figure in {figure for of in HEADLINE.values() for figure in of}:
        assert figure.engine in QUESTIONS[figure.question].engines


def test_without_a_peer_nothing_is_said_about_one() -> None:
    found = headline({"ours": ours()})
    assert not [key for key in found if "llama" in key]
    assert found["scaling_4"] == 4.0


def test_the_table_has_every_figure_of_the_headline() -> None:
    shown = table(everyone())
    assert "ours      peer     ratio" in shown
    assert "8 clients, decode tok/s          240.0     160.0     1.500" in shown
    assert "short behind long, s             2.000     5.000     2.500" in shown
    assert "kv_live                          0.960" in shown
    assert all(f"{key} " in shown for key in HEADLINE)


def test_the_table_has_only_what_was_asked() -> None:
    shown = table({"ours": {"evict": {"evict_stall_ms": 420.0}}})
    assert shown.splitlines()[1:] == ["evict_stall_ms                 420.000"]


def test_questions_are_chosen_by_name_and_asked_in_their_order() -> None:
    assert list(chosen("evict,host_1").items()) == [
        (name, QUESTIONS[name]) for name in ("host_1", "evict")
    ]
    with pytest.raises(ArgumentTypeError, match="no questions: hots_1"):
        chosen("evict,hots_1")


def test_answers_that_shared_the_machine_do_not_count_beside_clean_ones() -> None:
    clean, shared = {"own": 0.97, "ttft_s": 1.0}, {"own": 0.5, "ttft_s": 3.0}
    assert summary([clean, shared, shared]) == {**clean, "samples": 1, "asked": 3}
    assert summary([shared, shared]) == {**shared, "samples": 2, "asked": 2}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """A child that answers every question with how many numbers it had."""
    script = tmp_path / "counts.py"
    script.write_text(
        "from protocol import listen\n"
        "def count(*numbers): return {'numbers': len(numbers)}\n"
        f"listen({{'engine': 'counts'}}, dict.fromkeys({names()}, count))\n"
    )
    child = Driver(Command(Path(sys.executable), script, ()), tmp_path / "log")
    yield child
    child.close()


def names() -> list[str]:
    return [question.line.split()[0] for question in QUESTIONS.values()]


def test_a_share_of_the_processor_time_taken_is_its_own(driver: Driver) -> None:
    times = iter([100.0, 100.0 + 1e9])
    answer = ask_once(driver, "prefix 1500 30", lambda: next(times))
    assert answer["numbers"] == 2
    assert 0 <= answer["cpu"] < 1
    assert 0 <= answer["own"] < 1e-6


def test_each_question_is_asked_until_every_engine_has_a_clean_answer(driver: Driver) -> None:
    shares = iter([0.5, 0.95, 0.95, 0.5, 0.97, 0.5])

    def ask(driver: Driver, question: str) -> Answer:
        share = next(shares) if question.startswith("prefix") else 0.99
        return {**driver.ask(question), "own": share}

    got = ask_all({"ours": driver, "peer": driver}, ONCE, ask=ask)
    # The peer goes first in the second round.
    assert [a["own"] for a in got["ours"]["prefix"]] == [0.5, 0.5, 0.97]
    assert [a["own"] for a in got["peer"]["prefix"]] == [0.95, 0.95, 0.5]
    once = {key for key in got["ours"] if key != "prefix"}
    assert {len(got["ours"][key]) for key in once} == {1}


def shared_always(driver: Driver, question: str) -> Answer:
    return {**driver.ask(question), "own": 0.1}


def test_an_engine_is_asked_only_what_it_can(driver: Driver) -> None:
    got = ask_all(dict.fromkeys(("ours", "peer", "demo"), driver), ONCE, ask=shared_always)
    for name, answers in got.items():
        assert {key: len(found) for key, found in answers.items()} == {
            key: ONCE.most_of_slow if question.slow else ONCE.most
            for key, question in QUESTIONS.items()
            if name in question.engines
        }
    assert set(got["peer"]) < set(got["ours"])


def test_only_what_was_chosen_is_asked(driver: Driver) -> None:
    got = ask_all({"ours": driver, "peer": driver}, ONCE, chosen("evict,prefix"), shared_always)
    assert {name: set(answers) for name, answers in got.items()} == {
        "ours": {"evict", "prefix"},
        "peer": {"prefix"},
    }
