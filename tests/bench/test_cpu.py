"""How the benchmark turns answers into figures."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from cpu import COSTS, SAMPLES, named, of_bandwidth, ratios
from engines import ik_command
from peers.ik_llamacpp import read_seconds
from protocol import Command, Driver, process_age
from rounds import Effort, Sample, figures, interleave
from scoring.points import OURS, PEERS
from tables import table

ONCE = Effort(rounds=1, most=3, cold=1, idle_wait=0.0)


def answer(seconds: float, util: float) -> dict[str, float]:
    return {"seconds": seconds, "util": util, "idle_before": 1.0}


def test_samples_that_shared_the_machine_do_not_count_beside_clean_ones() -> None:
    got = figures([answer(1.0, 0.99), answer(5.0, 0.4), answer(2.0, 0.95)], Sample("", 100))
    assert (got["tok_s"], got["samples"], got["asked"]) == (75.0, 2, 3)


def test_without_a_clean_sample_all_count() -> None:
    got = figures([answer(1.0, 0.5), answer(2.0, 0.4), answer(4.0, 0.3)], Sample("", 100))
    assert (got["tok_s"], got["samples"]) == (50.0, 3)


def test_a_ratio_above_one_is_always_better() -> None:
    def engine(speed: float, cost: float) -> dict[str, object]:
        speeds = {key: {"tok_s": speed} for key in SAMPLES}
        return {**speeds, **dict.fromkeys(COSTS.values(), cost)}

    better = ratios(engine(30.0, 1.0), engine(20.0, 3.0))
    assert {better[key] for key in SAMPLES} == {1.5}
    assert {better[key] for key in COSTS} == {3.0}
    assert ratios(engine(30.0, 1.0), {}) == {}


def test_a_process_grows_older_by_the_second() -> None:
    age = process_age()
    time.sleep(0.1)
    assert 0 < age < process_age() - 0.05


@pytest.fixture
def engine(tmp_path: Path) -> Command:
    """A child that sleeps: 10 ms a prefill and 1 ms a step, on no processor time at all."""
    script = tmp_path / "sleeper.py"
    script.write_text(
        "import time\n"
        "from protocol import serve\n"
        "class Sleeper:\n"
        "    def prefill(self, tokens): time.sleep(0.01)\n"
        "    def prepare(self, batch, context): pass\n"
        "    def decode(self, steps): time.sleep(0.001 * steps)\n"
        "serve(Sleeper(), 1, {'engine': 'sleeper'})\n"
    )
    return Command(Path(sys.executable), script, ())


def test_rounds_go_on_until_every_sample_is_clean(engine: Command, tmp_path: Path) -> None:
    driver = Driver(engine, tmp_path / "log")
    samples = {"prefill": SAMPLES["prefill_128"], "decode": SAMPLES["decode_1_128"]}
    got = interleave({"ours": driver}, samples, ONCE)
    lenient = interleave({"ours": driver}, samples, ONCE, clean=0.0)
    driver.close()
    assert driver.about == {"engine": "sleeper"}
    assert {key: len(answers) for key, answers in got.items()} == {
        ("ours", "prefill"): ONCE.most,
        ("ours", "decode"): ONCE.most,
    }
    assert {len(answers) for answers in lenient.values()} == {ONCE.rounds}
    assert all(a["seconds"] >= 0.01 and a["util"] < 0.9 for v in got.values() for a in v)


def test_what_an_engine_cannot_do_is_not_asked(engine: Command, tmp_path: Path) -> None:
    rounds: list[None] = []
    drivers = {name: Driver(engine, tmp_path / name) for name in ("ours", "peer")}
    got = interleave(
        drivers,
        {"prefill": SAMPLES["prefill_128"], "decode": SAMPLES["decode_1_128"]},
        ONCE,
        without={("peer", "decode")},
        between=lambda: rounds.append(None),
    )
    for driver in drivers.values():
        driver.close()
    assert got.keys() == {("ours", "prefill"), ("ours", "decode"), ("peer", "prefill")}
    assert len(rounds) == ONCE.most


def test_what_is_to_be_measured_is_named_as_in_the_page_about_quality() -> None:
    assert [point.kind for point in named(PEERS, "Q4_0,Q4_0+pure")] == ["Q4_0", "Q4_0"]
    assert [point.option for point in named(OURS, "q4+calibrate,q8")] == ["+calibrate", ""]
    with pytest.raises(ArgumentTypeError, match="q3: not among"):
        named(OURS, "q4,q3")


def test_a_share_of_bandwidth_is_bytes_a_second_over_it() -> None:
    assert of_bandwidth(tok_s=50.0, moved=4e8, read_gb_s={"best": 40.0, "median": 25.0}) == {
        "bytes": 4e8,
        "of_median": 0.8,
        "of_best": 0.5,
    }


def test_the_table_has_kl_beside_speed_and_a_column_of_ratios_for_each_pair() -> None:
    def found(speed: float, **more: object) -> dict[str, object]:
        return {"decode_1_128": {"tok_s": speed}, **more}

    quality = {"kl": {"mean": 0.0523}, "same_top1": 0.876, "weight_bytes": 80 << 20}
    ours = found(90.0, peak_mib=700.0, quality=quality)
    ours["decode_1_128"] = {"tok_s": 90.0, "of_median": 0.87}
    engines = {"q4": ours, "llama Q4_0": found(60.0, peak_mib=900.0), "ik Q4_0": found(80.0)}
    others = {name: ratios(ours, engines[name]) for name in ("llama Q4_0", "ik Q4_0")}
    shown = table(
        {
            "engines": engines,
            "ratios": {"q4": others},
            "read_gb_s": {"median": 31.25},
            "busy_thread": 0.9,
            "busy_thread_oversubscribed": 0.5,
        },
        SAMPLES,
    )
    lines = [line.split() for line in shown.splitlines()]
    assert ["KL", "on", "SmolLM2", "0.0523"] in lines
    assert ["decode_1_128", "tok/s", "90.0", "60.0", "80.0"] in lines
    assert ["decode_1_128", "of", "median", "read", "87.0%"] in lines
    assert ["median", "reading", "GB/s", "31.2"] in lines
    assert ["than", "llama", "Q4_0", "ik", "Q4_0"] in lines
    assert ["decode_1_128", "1.50", "1.12"] in lines
    assert ["memory", "1.29"] in lines
    assert "prefill" not in shown


def test_the_seconds_of_llama_bench_are_read_from_its_json() -> None:
    test = {"n_prompt": 128, "n_gen": 48, "test": "tg48@pp128", "samples_ns": [1_500_000_000]}
    assert read_seconds("repacking\n" + json.dumps([test], indent=1)) == 1.5


@pytest.fixture
def llama_bench(tmp_path: Path) -> Command:
    """The peer with a program in place of llama-bench, which tells what it was asked."""
    tool = tmp_path / "bin/llama-bench"
    tool.parent.mkdir()
    tool.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "asked = sys.argv[sys.argv.index('json') + 1:]\n"
        "n = sum(int(n) for word in asked for n in word.split(',') if n.isdigit())\n"
        "print(json.dumps([{'samples_ns': [n * 10**9]}], indent=1))\n"
    )
    tool.chmod(0o755)
    return ik_command(tmp_path / "model.gguf", tmp_path, threads=2)


@pytest.mark.parametrize(
    ("question", "seconds"), [("prefill 128", 128), ("decode 1 128 48", 128 + 48)]
)
def test_llama_bench_is_started_for_each_question(
    question: str, seconds: float, llama_bench: Command, tmp_path: Path
) -> None:
    driver = Driver(llama_bench, tmp_path / "log")
    answer = driver.ask(question)
    driver.close()
    assert answer["seconds"] == seconds
    assert 0 < answer["util"] <= 1


def test_a_child_that_dies_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text("raise SystemExit('no such model')\n")
    with pytest.raises(RuntimeError, match="no such model"):
        Driver(Command(Path(sys.executable), script, ()), tmp_path / "log")
