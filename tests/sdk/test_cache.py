"""A checkpoint that is used directly is compiled once, and again when it changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cache import bundles_folder, cached_bundle, find_bundle, is_bundle
from edgewise_runtime.errors import InputError


@pytest.fixture
def checkpoint(checkpoints: Callable[[str], Path], tmp_path: Path) -> Path:
    return shutil.copytree(checkpoints("llama-mha"), tmp_path / "tiny")


def test_a_checkpoint_is_compiled_once(checkpoint: Path) -> None:
    phases: list[str] = []
    with Engine(checkpoint, progress=lambda phase, done, total: phases.append(phase)) as engine:
        assert engine.name == cached_bundle(checkpoint).name
    assert "Packing weights" in phases
    made = cached_bundle(checkpoint) / "bundle.json"
    before = made.stat().st_mtime_ns
    assert find_bundle(checkpoint) == made.parent
    assert made.stat().st_mtime_ns == before
    assert made.is_relative_to(bundles_folder())


def test_a_change_asks_for_a_new_bundle(checkpoint: Path) -> None:
    before = cached_bundle(checkpoint)
    assert cached_bundle(checkpoint) == before
    assert cached_bundle(checkpoint, "q8") != before
    config = checkpoint / "generation_config.json"
    config.write_text('{"temperature": 0.5}')
    assert cached_bundle(checkpoint) != before
    assert before.name.startswith("tiny-q4-")


def test_a_bundle_is_used_where_it_is(bundle: Path) -> None:
    assert is_bundle(bundle)
    assert find_bundle(bundle) == bundle


@pytest.mark.parametrize(("make", "said"), [(False, "no such folder"), (True, "neither")])
def test_what_is_no_model_is_refused(tmp_path: Path, make: bool, said: str) -> None:
    path = tmp_path / "x"
    if make:
        path.mkdir()
    with pytest.raises(InputError, match=said) as caught:
        find_bundle(path)
    assert caught.value.code == "input.model"
