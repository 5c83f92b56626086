"""One engine for all tests that only read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise import Engine

CASE = "llama-gqa2-tied-linear"


@pytest.fixture(scope="session")
def bundle(bundles: Callable[..., Path]) -> Path:
    """A tiny q4 bundle: context 256, 8 sequences, 128 rows a step."""
    return bundles(CASE)


@pytest.fixture(scope="session")
def engine(bundle: Path) -> Iterator[Engine]:
    with Engine(bundle) as engine:
        yield engine
