"""A checkpoint that is used directly is compiled once, and again when it changes."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.cache import bundles_folder, cached_bundle, find_bundle, has_programs, is_bundle
from edgewise.cli.main import main
from edgewise_compiler.phases import WAITING, WRITING
from edgewise_runtime.errors import InputError, StorageError
from tests.sdk.conftest import CASE, FirstUse
from tests.sdk.hub.repositories import FOLDER
from tests.sdk.hub.small_hub import SmallHub


@pytest.mark.landing
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


@pytest.mark.landing
def test_those_who_ask_for_a_checkpoint_at_once_wait_for_the_first(
    checkpoints: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    phases: Counter[str] = Counter()

    def told(phase: str, done: int, total: int) -> None:
        phases.update([phase] if done == total else [])

    def find(_: int) -> Path:
        return find_bundle(checkpoints(CASE), progress=told)

    # Each compiles in a process of its own, as three programs that begin together do.
    with ThreadPoolExecutor(3) as pool:
        found = set(pool.map(find, range(3)))
    assert [*bundles_folder().iterdir()] == [*found]
    assert (phases[WRITING], phases[WAITING]) == (1, 2)


@pytest.mark.landing
def test_a_bundle_of_the_cache_that_is_damaged_is_made_again(first_use: FirstUse) -> None:
    manifest = cached_bundle(first_use.checkpoint) / "bundle.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-9])
    assert find_bundle(first_use.checkpoint) == manifest.parent
    assert manifest.read_bytes() == whole


def test_a_change_asks_for_a_new_bundle(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    checkpoint = shutil.copytree(checkpoints("llama-mha"), tmp_path / "tiny")
    before = cached_bundle(checkpoint)
    assert cached_bundle(checkpoint) == before
    assert cached_bundle(checkpoint, "q8") != before
    config = checkpoint / "generation_config.json"
    config.write_text('{"temperature": 0.5}')
    assert cached_bundle(checkpoint) != before
    assert before.name.startswith("tiny-balanced-")


@pytest.mark.parametrize("command", [["chat", "--question", "Hi"], ["compile"]])
def test_a_name_that_only_the_hub_can_have_is_told_with_what_to_write(
    command: list[str], hub: SmallHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "tiny/llama"]) == 1
    assert "hf:tiny/llama" in capsys.readouterr().err
    assert hub.requests == []


@pytest.mark.parametrize("command", [["run", "hf:tiny/llama", "Hi"], ["compile", "hf:tiny/llama"]])
def test_what_compiling_needs_is_looked_for_before_a_model_is_fetched(
    command: list[str],
    hub: SmallHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hub.add("tiny/llama", FOLDER)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert main(command) == 1
    assert "[compile.linker]" in capsys.readouterr().err
    assert hub.requests == []


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


def test_a_longer_context_than_usual_asks_for_a_bundle_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    usual = cached_bundle(tmp_path)
    assert cached_bundle(tmp_path, context=512) == cached_bundle(tmp_path, context=131072) == usual
    longer = cached_bundle(tmp_path, context=200000)
    assert longer.name.startswith(f"{tmp_path.name}-balanced-c200000-")
    assert cached_bundle(tmp_path, context=200001) != longer


def test_a_checkpoint_is_compiled_with_the_context_that_is_asked_for(
    checkpoints: Callable[[str], Path],
) -> None:
    """The model's own is shorter: compiling it so is refused."""
    with pytest.raises(InputError, match=r"context is 5000, outside 2\.\.256"):
        find_bundle(checkpoints("llama-mha"), context=5000)


def test_programs_for_another_device_go_to_what_is_kept(
    bundle: Path, checkpoints: Callable[[str], Path]
) -> None:
    """Of a bundle with other bounds, which nobody keeps but this test, that is refused."""
    checkpoint = checkpoints(CASE)
    shutil.copytree(bundle, cached_bundle(checkpoint, "q4"))
    assert find_bundle(checkpoint, quant="q4") == cached_bundle(checkpoint, "q4")
    with pytest.raises(StorageError, match="programs for cpu that do not go with this"):
        find_bundle(checkpoint, quant="q4", target="webgpu")


@pytest.mark.full
def test_a_checkpoint_runs_on_the_device_that_is_asked_for(first_use: FirstUse) -> None:
    checkpoint = first_use.checkpoint
    kept = find_bundle(checkpoint)
    assert not has_programs(kept, "webgpu")
    with Engine(checkpoint, device="wgpu", context=64) as engine:
        assert engine.program.startswith("webgpu-")
        assert engine.context == 64
        assert engine.generate("A", max_tokens=2, ignore_eos=True).token_ids
    assert has_programs(kept, "webgpu")
    assert has_programs(kept, None)
    with Engine(checkpoint) as engine:
        assert engine.program.startswith("cpu-")


def test_without_its_device_nothing_is_compiled(checkpoints: Callable[[str], Path]) -> None:
    phases: list[str] = []
    with pytest.raises(InputError, match="no device 'tpu'"):
        Engine(
            checkpoints("qwen3-gqa2-tied"),
            device="tpu",
            progress=lambda phase, done, total: phases.append(phase),
        )
    assert phases == []


def test_what_cannot_be_read_in_the_cache_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text("{")
    assert is_bundle(tmp_path)
    assert not has_programs(tmp_path, None)
