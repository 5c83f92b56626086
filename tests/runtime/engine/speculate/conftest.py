"""Two tiny models of one tokenizer: the one that answers and the one that guesses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise import Engine
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory

CASE = "llama-gqa2-tied-linear"
OTHER = "qwen3-gqa2-tied"


@pytest.fixture(scope="session")
def target(bundles: BundleFactory) -> Bundle:
    """The model that answers: context 256, 8 sequences, 128 rows a step."""
    return Bundle.open(bundles(CASE))


@pytest.fixture(scope="session")
def smaller(bundles: BundleFactory) -> Bundle:
    """Another model with the same tokenizer."""
    return Bundle.open(bundles(OTHER))


@pytest.fixture(scope="module")
def engine(target: Bundle) -> Iterator[Engine]:
    """Plain generation by the target."""
    with Engine(target.path) as engine:
        yield engine
