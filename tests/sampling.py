"""Which cases of a test with many a suite runs.

There are three: the quick one (`make test`), what a change must pass before it lands (`.ci/run`),
and the full one (`make test-full`). Each has all that the one before it has.

    pytestmark = pytest.mark.sampled(one_in=4)

on a file or a test keeps a fourth of each test's cases; of tests with several parameters more,
where it takes more for every value of each to occur, but with ``covering=False``, where cases take
seconds and others meet the same values. Which ones is decided by a hash of their names, so it stays
the same. The others are marked `full`, and of those that are kept the quick suite has a sixteenth,
as it has of every test of more than four cases, but four at least: the rest is marked `landing`. So
are tests that take seconds, by ``pytest.mark.landing``, and cases by

    pytestmark = pytest.mark.quick(cases=1)

which leaves the quick suite so many of each test, by ``cases=0`` none of a file's tests but those
that say another number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from math import ceil

import pytest

QUICK = 16
"""One in so many of a sample's cases is the quick suite's."""

MANY = 4
"""Of a test that is no sample so many cases at least are the quick suite's."""


def mark_cases(items: Iterable[pytest.Item]) -> None:
    """Mark as `full` what samples leave out, and as `landing` what the quick suite leaves of the
    others."""
    tests: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("full"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        left, quick = cases, max(ceil(len(cases) / QUICK), MANY)
        if sampled := cases[0].get_closest_marker("sampled"):
            chosen = choose({case.nodeid: _values(case) for case in cases}, **sampled.kwargs)
            left = _mark(pytest.mark.full, cases, chosen)
            quick = ceil(len(left) / QUICK)
        if few := cases[0].get_closest_marker("quick"):
            quick = few.kwargs["cases"]
        names = [case.nodeid for case in left if not case.get_closest_marker("landing")]
        _mark(pytest.mark.landing, left, set(sorted(names, key=by_hash)[:quick]))


def choose(
    cases: Mapping[str, Sequence[object]], one_in: int, *, covering: bool = True
) -> set[str]:
    """Names of a sample: one in so many, and enough for all values of parameters that combine.

    Args:
        cases: a case's name to its parameters' values, in the same order for all cases.
        one_in: at least 1, which takes every case.
        covering: whether all values have to occur; without, it is one in so many.
    """
    ordered = sorted(cases, key=by_hash)
    # A test's only parameter is not covered: its cases are what there is to choose from.
    several = [name for name in ordered if covering and len(cases[name]) > 1]
    unseen = {name: set(enumerate(cases[name])) for name in several}
    chosen: set[str] = set()
    while any(unseen.values()):
        # The first of those that have most values which none of the chosen has.
        best = max(unseen, key=lambda name: len(unseen[name]))
        chosen.add(best)
        found = unseen.pop(best)
        unseen = {name: rest for name, values in unseen.items() if (rest := values - found)}
    missing = max(ceil(len(cases) / one_in) - len(chosen), 0)
    return chosen.union([name for name in ordered if name not in chosen][:missing])


def _mark(
    mark: pytest.MarkDecorator, cases: Iterable[pytest.Function], kept: set[str]
) -> list[pytest.Function]:
    """Mark all cases but those to be ``kept``, which are given back."""
    left = []
    for case in cases:
        if case.nodeid in kept:
            left.append(case)
        else:
            case.add_marker(mark)
    return left


def by_hash(name: str) -> bytes:
    """What decides which of a test's cases come first."""
    return sha256(name.encode()).digest()


def _values(case: pytest.Function) -> list[int]:
    """What tells its parameters' values apart: all cases hold the objects that tests list."""
    spec = getattr(case, "callspec", None)
    return [] if spec is None else [id(value) for _, value in sorted(spec.params.items())]
