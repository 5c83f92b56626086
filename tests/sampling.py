"""Which cases of a test with many the quick suite runs: those of ``pytest.mark.sampled``.

    pytestmark = pytest.mark.sampled(one_in=4)

on a file or a test keeps a fourth of each test's cases; of tests with several parameters more,
where it takes more for every value of each to occur, but with ``covering=False``, where cases take
seconds and others meet the same values. Which ones is decided by a hash of their names, so it stays
the same. The others are marked `full`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from math import ceil
from typing import Any

import pytest

MARKER = "sampled(one_in, covering): of a test's cases, one of so many runs in the quick suite"


def mark_cases(items: Iterable[pytest.Item]) -> None:
    """Mark as `full` what samples leave out."""
    tests: dict[str, list[pytest.Function]] = defaultdict(list)
    shares: dict[str, Mapping[str, Any]] = {}
    for item in items:
        marker = item.get_closest_marker("sampled")
        if isinstance(item, pytest.Function) and marker and not item.get_closest_marker("full"):
            name = item.nodeid.partition("[")[0]
            shares[name] = marker.kwargs
            tests[name].append(item)
    for name, cases in tests.items():
        chosen = choose({case.nodeid: _values(case) for case in cases}, **shares[name])
        for case in cases:
            if case.nodeid not in chosen:
                case.add_marker(pytest.mark.full)


def choose(
    cases: Mapping[str, Sequence[object]], one_in: int, *, covering: bool = True
) -> set[str]:
    """Names of a sample: one in so many, and enough for all values of parameters that combine.

    Args:
        cases: a case's name to its parameters' values, in the same order for all cases.
        one_in: at least 1, which takes every case.
        covering: whether all values have to occur; without, it is one in so many.
    """
    ordered = sorted(cases, key=lambda name: sha256(name.encode()).digest())
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


def _values(case: pytest.Function) -> list[int]:
    """What tells its parameters' values apart: all cases hold the objects that tests list."""
    spec = getattr(case, "callspec", None)
    return [] if spec is None else [id(value) for _, value in sorted(spec.params.items())]
