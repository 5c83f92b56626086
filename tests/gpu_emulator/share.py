"""Which cases of a folder other suites than the full one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.sampling import by_hash


def mark_all_but(
    few: int, items: list[pytest.Item], folder: Path, *, quick: Collection[str] = ()
) -> None:
    """Mark as `full` what a folder's files have beyond so many cases each, by a hash of names, and
    these as `landing` but for files that the quick suite has, by their names."""
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.parent == folder and not item.get_closest_marker("full"):
            files[item.path].append(item)
    for path, cases in files.items():
        cases.sort(key=lambda item: by_hash(item.nodeid))
        for item in cases[few:]:
            item.add_marker(pytest.mark.full)
        if path.name not in quick:
            for item in cases[:few]:
                item.add_marker(pytest.mark.landing)
