"""Which cases of a folder other suites than the full one run."""

from __future__ import annotations

from collections import defaultdict
from hashlib import sha256
from pathlib import Path

import pytest


def mark_all_but(few: int, items: list[pytest.Item], folder: Path) -> None:
    """Mark as `full` what a folder's files have beyond so many cases each, by a hash of names."""
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.parent == folder and not item.get_closest_marker("full"):
            files[item.path].append(item)
    for cases in files.values():
        cases.sort(key=lambda item: sha256(item.nodeid.encode()).digest())
        for item in cases[few:]:
            item.add_marker(pytest.mark.full)
