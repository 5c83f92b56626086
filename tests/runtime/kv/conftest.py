"""What tests of pages at rest share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.kv.held_disk import HeldDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[HeldDisk]:
    made = HeldDisk(tmp_path)
    yield made
    made.going.set()
