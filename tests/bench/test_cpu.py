"""How the benchmark turns answers into figures."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from cpu import COSTS, SAMPLES, Effort, Sample, figures, interleave, ratios
from protocol import Command, Driver, process_age

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
        return {**speeds, **{key: cost for key, _ in COSTS.values()}}

    better = ratios({"ours": engine(30.0, 1.0), "peer": engine(20.0, 3.0)})
    assert {better[key] for key in SAMPLES} == {1.5}
    assert {better[key] for key in COSTS} == {3.0}
    assert ratios({"ours": engine(30.0, 1.0)}) == {}


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


def test_a_child_that_dies_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text("raise SystemExit('no such model')\n")
    with pytest.raises(RuntimeError, match="no such model"):
        Driver(Command(Path(sys.executable), script, ()), tmp_path / "log")
