"""One server for the tests that need no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.server.socket.serving import Served, serving


@pytest.fixture(scope="module")
def served(bundle: Path) -> Iterator[Served]:
    with serving(bundle) as served:
        yield served
