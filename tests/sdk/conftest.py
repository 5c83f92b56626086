"""One engine for all tests that only read from it, and one checkpoint that was used directly."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cli.main import main

CASE = "llama-gqa2-tied-linear"


@pytest.fixture(scope="session")
def bundle(bundles: Callable[..., Path]) -> Path:
    """A tiny q4 bundle: context 256, 8 sequences, 128 rows a step."""
    return bundles(CASE)


@pytest.fixture(scope="session")
def engine(bundle: Path) -> Iterator[Engine]:
    with Engine(bundle) as engine:
        yield engine


@dataclass(frozen=True)
class FirstUse:
    """A checkpoint after `edgewise chat CHECKPOINT`, and what that wrote to stderr."""

    checkpoint: Path
    said: str


@pytest.fixture(scope="session")
def first_use(checkpoints: Callable[[str], Path]) -> FirstUse:
    checkpoint = checkpoints("llama-mha")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        assert main(["chat", str(checkpoint), "--question", "Hi", "--max-tokens", "2"]) == 0
    return FirstUse(checkpoint, said.getvalue())
