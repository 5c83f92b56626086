"""A folder with what the pages speak of: a tiny model under every name that they give to one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise import Engine
from tests.docs.blocks import ROOT

CASE = "llama-gqa2-tied-linear"
BUNDLES = ("model", "model-q4", "model-f32", "small-q4", "demo-q4")
"""In ``dist/``: one bundle, context 256."""
CHECKPOINTS = ("PATH", "MODEL")


@pytest.fixture(scope="module")
def bundle(bundles: Callable[..., Path]) -> Path:
    return bundles(CASE)


@pytest.fixture(scope="module")
def engine(bundle: Path) -> Iterator[Engine]:
    with Engine(bundle) as engine:
        yield engine


@pytest.fixture(scope="module")
def reader(
    bundles: Callable[..., Path],
    checkpoints: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A reader's own folder."""
    bundle = bundles(CASE, targets=("cpu", "webgpu"))
    folder = tmp_path_factory.mktemp("reader")
    (folder / "dist").mkdir()
    for name in BUNDLES:
        shutil.copytree(bundle, folder / "dist" / name)
    for name in CHECKPOINTS:
        shutil.copytree(checkpoints(CASE), folder / name)
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder
