"""What a reader does wrong is found, with the case that it does it with."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.campaign import run
from tests.fuzz.case import CORPUS
from tests.fuzz.formats.table import FORMATS, find
from tests.fuzz.limits import Limits
from tests.fuzz.mutate import raw, texts, values

SOON = Limits(cpu_s=1, wall_s=60)
ASLEEP = Limits(cpu_s=60, wall_s=1)
"""So that what hangs is found soon."""


@pytest.mark.landing
@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("CRASH", "crash", "Segmentation fault"),
        ("SPIN", "hang", "_spin"),
        ("SLEEP", "hang", "ended with -9"),
        ("MEMORY", "memory", "bytes for a case of 3"),
        ("EXCEPTION", "exception", "KeyError: 'token'"),
        ("EXIT", "exception", "SystemExit"),
        ("WRONG", "wrong", "another value"),
        ("WORDS", "words", "10008 characters"),
    ],
)
def test_a_fault_is_found_and_the_next_case_tried(fault: str, kind: str, said: str) -> None:
    limits = ASLEEP if fault == "SLEEP" else SOON
    report = run(f"faults:{fault}", seed=3, count=2, limits=limits)
    assert [(found.case, found.kind) for found in report.findings] == [(0, kind), (1, kind)]
    assert all(said in found.detail for found in report.findings)


def test_what_is_refused_in_words_is_no_fault() -> None:
    report = run("faults:NONE", seed=3, count=5)
    assert (report.findings, report.done, report.refused) == ([], 5, 5)


def test_a_case_is_the_same_whenever_it_is_tried() -> None:
    def made() -> list[object]:
        rng = Random("a seed")
        value = {"a": [1, 2.5, "text", None, True], "b": {"c": {}}}
        return [
            *(values.written(rng, values.changed(rng, value)) for _ in range(50)),
            *(texts.damaged(rng, "{% if a %}1{% endif %}", ("{{", "}}")) for _ in range(50)),
            *(raw.changed(rng, bytes(range(99)), head=8) for _ in range(50)),
        ]

    assert made() == made()
    assert len(set(map(str, made()))) > 100


def test_every_kept_case_is_of_a_format() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= FORMATS.keys()
    assert all(find(name) for name in FORMATS)
