"""How the engine's benchmark asks, and what it makes of the answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import (
    CLIENTS,
    OURS,
    SHARED,
    Effort,
    Figures,
    ask_all,
    ask_once,
    headline,
    summary,
    table,
)
from protocol import Answer, Command, Driver

ONCE = Effort(rounds=1, most=3, rounds_of_ours=1, most_of_ours=2, idle_wait=0.0)


def figures(speed: float, warm_s: float) -> Figures:
    """Of an engine whose speed doubles with twice the clients, whole half of it."""
    clients = {
        f"clients_{n}": {"decode_tok_s": n * speed, "whole_tok_s": n * speed / 2} for n in CLIENTS
    }
    prefix = {"cold_s": 2.0, "warm_s": warm_s, "warm_over_cold": warm_s / 2.0}
    return {**clients, "prefix": prefix}


def ours() -> Figures:
    return {
        **figures(30.0, 0.1),
        "long_prompt": {"itl_under_prefill": 1.5, "ttft_under_prefill": 1.2},
        "mixed": {"kv_live": 0.96, "kv_preallocated": 0.06},
    }


def test_the_headline_is_ours_over_one_client_and_over_the_peer() -> None:
    found = headline(ours(), figures(20.0, 0.2))
    assert (found["scaling_4"], found["scaling_8"], found["scaling_whole_8"]) == (4.0, 8.0, 8.0)
    assert {found[f"vs_llama_{w}{n}"] for w in ("", "whole_") for n in CLIENTS} == {1.5}
    assert (found["warm_over_cold"], found["llama_warm_over_cold"]) == (0.05, 0.1)
    assert (found["vs_llama_cold"], found["vs_llama_warm"]) == (1.0, 2.0)
    assert (found["itl_under_prefill"], found["ttft_under_prefill"]) == (1.5, 1.2)
    assert (found["kv_live"], found["kv_preallocated"]) == (0.96, 0.06)


def test_without_a_peer_nothing_is_said_about_one() -> None:
    found = headline(ours(), None)
    assert not [key for key in found if "llama" in key]
    assert found["scaling_4"] == 4.0


def test_the_table_has_every_figure_of_the_headline() -> None:
    mine, theirs = ours(), figures(20.0, 0.2)
    shown = table({"machine": {}, "ours": mine, "peer": theirs, **headline(mine, theirs)})
    assert "ours      peer     ratio" in shown
    assert "8 clients, decode tok/s          240.0     160.0     1.500" in shown
    assert "kv_live                          0.960" in shown


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
        f"listen({{'engine': 'counts'}}, dict.fromkeys({[*names(SHARED), *names(OURS)]}, count))\n"
    )
    child = Driver(Command(Path(sys.executable), script, ()), tmp_path / "log")
    yield child
    child.close()


def names(questions: dict[str, str]) -> list[str]:
    return [question.split()[0] for question in questions.values()]


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

    got = ask_all({"ours": driver, "peer": driver}, ONCE, ask)
    # The peer goes first in the second round.
    assert [a["own"] for a in got["ours"]["prefix"]] == [0.5, 0.5, 0.97]
    assert [a["own"] for a in got["peer"]["prefix"]] == [0.95, 0.95, 0.5]
    assert {len(got["ours"][key]) for key in SHARED if key != "prefix"} == {1}


def test_a_peer_is_asked_only_what_it_can(driver: Driver) -> None:
    got = ask_all({"ours": driver, "peer": driver}, ONCE, lambda d, q: {**d.ask(q), "own": 0.1})
    assert {key: len(answers) for key, answers in got["ours"].items()} == {
        **dict.fromkeys(SHARED, ONCE.most),
        **dict.fromkeys(OURS, ONCE.most_of_ours),
    }
    assert set(got["peer"]) == set(SHARED)
