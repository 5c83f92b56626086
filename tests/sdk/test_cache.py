"""A checkpoint that is used directly is compiled once, and again when it changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cache import bundles_folder, cached_bundle, find_bundle, is_bundle
from edgewise_runtime.errors import InputError
from tests.sdk.conftest import FirstUse


def test_a_checkpoint_is_compiled_once(first_use: FirstUse) -> None:
    made = cached_bundle(first_use.checkpoint)
    assert made.is_relative_to(bundles_folder())
    before = (made / "bundle.json").stat().st_mtime_ns
    phases: list[str] = []
    with Engine(
        first_use.checkpoint, progress=lambda phase, done, total: phases.append(phase)
    ) as engine:
        assert engine.name == made.name
        assert engine.generate("A", max_tokens=2).token_ids
    assert "Packing weights" not in phases
    assert (made / "bundle.json").stat().st_mtime_ns == before


def test_a_change_asks_for_a_new_bundle(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    checkpoint = shutil.copytree(checkpoints("llama-mha"), tmp_path / "tiny")
    before = cached_bundle(checkpoint)
    assert cached_bundle(checkpoint) == before
    assert cached_bundle(checkpoint, "q8") != before
    config = checkpoint / "generation_config.json"
    config.write_text('{"temperature": 0.5}')
    assert cached_bundle(checkpoint) != before
    assert before.name.startswith("tiny-balanced-")


def test_a_bundle_is_used_where_it_is(bundle: Path) -> None:
    assert is_bundle(bundle)
    assert find_bundle(bundle) == bundle


def test_the_bundle_of_a_gguf_file_changes_with_each_of_its_parts_and_nothing_beside(
    tmp_path: Path,
) -> None:
    parts = [tmp_path / f"model-{i:05}-of-00002.gguf" for i in (1, 2)]
    for part in parts:
        part.write_bytes(b"GGUF")
    before = cached_bundle(parts[0])
    assert before.name.startswith("model-")
    assert cached_bundle(parts[0], "q4").name.startswith("model-q4-")
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    assert cached_bundle(parts[0]) == before
    parts[1].write_bytes(b"GGUF, changed")
    assert cached_bundle(parts[0]) != before


@pytest.mark.parametrize(("make", "said"), [(False, "no such folder"), (True, "neither")])
def test_what_is_no_model_is_refused(tmp_path: Path, make: bool, said: str) -> None:
    path = tmp_path / "x"
    if make:
        path.mkdir()
    with pytest.raises(InputError, match=said) as caught:
        find_bundle(path)
    assert caught.value.code == "input.model"
