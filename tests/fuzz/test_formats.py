"""Whatever is wrong with a file, reading it ends, in bounds, with what it holds or in words.

A failure says how to try its case again. What was found is kept in the corpus.
"""

from __future__ import annotations

import pytest

from tests.fuzz.campaign import Report, run
from tests.fuzz.case import corpus_of
from tests.fuzz.formats.table import FORMATS

QUICK = 300
WHOLE, PARTS = 100_000, 10
"""Cases of a format in the full suite, and in how many parts."""


def check(report: Report, count: int) -> None:
    assert not report.findings, "\n".join(map(str, report.findings[:5]))
    assert report.done == count


@pytest.mark.quick(cases=4)
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_files_are_read_or_refused(name: str) -> None:
    check(run(name, seed=1, count=QUICK), QUICK + len(corpus_of(name)))


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", FORMATS)
def test_many_hostile_files_are_read_or_refused(name: str, part: int) -> None:
    count = WHOLE // PARTS
    check(run(name, seed=2, first=part * count, count=count), count)
