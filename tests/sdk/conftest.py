"""One engine for all tests that only read from it, one checkpoint that was used directly, and
packages that are not there."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cli.main import main
from edgewise_runtime import installed
from edgewise_runtime.installed import Package

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


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[Package], None]:
    """Makes a package as if it were not installed."""
    there = installed.version

    def hide(package: Package) -> None:
        def version(name: str) -> str:
            if name == package.name:
                raise PackageNotFoundError(name)
            return there(name)

        monkeypatch.setattr(installed, "version", version)

    return hide
