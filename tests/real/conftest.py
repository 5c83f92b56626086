"""The real model, and bundles of it; all tests of it are `full`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.compile import compile_model
from tests.conftest import made_once
from tools.smollm2 import smollm2


@pytest.fixture(scope="session")
def checkpoint() -> Iterator[Checkpoint]:
    with open_checkpoint(smollm2()) as opened:
        yield opened


@pytest.fixture(scope="session")
def compiled(shared: Path, own_data_folder: None) -> Callable[[str], Path]:
    """``compiled(quant)``: a CPU bundle of the real model, made once a session."""

    def bundle(quant: str) -> Path:
        return made_once(
            shared / f"smollm2-{quant}",
            lambda out: compile_model(smollm2(), out, targets=("cpu",), quant=quant, context=1024),
        )

    return bundle
