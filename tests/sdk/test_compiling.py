"""`edgewise.compile`: the command's options, and its bundle."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import edgewise
from edgewise import Engine
from edgewise.cli import compile as command
from edgewise.compiling import output_folder
from edgewise.packs.writing import packs_of
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.bundle import Bundle
from tests.sdk.conftest import CASE


def test_a_checkpoint_is_compiled_and_its_phases_told(
    checkpoints: Callable[[str], Path],
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    told: list[tuple[str, int, int]] = []
    made = edgewise.compile(
        checkpoints(CASE), quant="q4", prefill_chunk=128, progress=lambda *told_: told.append(told_)
    )
    assert made == Path("dist") / f"{CASE}-q4"
    assert Bundle.open(made).manifest.weights_id == Bundle.open(bundle).manifest.weights_id
    phases = [phase for phase, _, _ in told]
    assert phases[0] == "Checking weights"
    assert phases[-1] == "Writing the bundle"
    assert all(0 <= done <= total for _, done, total in told)
    with Engine(made) as engine:
        assert engine.generate("A", max_tokens=2).token_ids


def options() -> dict[str, Any]:
    """Of the command: each option's name and default."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return {action.dest: action.default for action in parser._actions if action.dest != "help"}


def test_it_has_the_options_of_the_command_and_their_defaults() -> None:
    arguments = inspect.signature(edgewise.compile).parameters
    own = {name: one.default for name, one in arguments.items() if name != "progress"}
    assert own.keys() == options().keys()
    del own["path"]
    assert own == {name: default for name, default in options().items() if name != "path"}


def test_help_tells_of_every_option() -> None:
    text = inspect.getdoc(edgewise.compile) or ""
    for name in options():
        assert f"\n    {name}: " in text
    assert (
        " ".join(text.split()).count("Default: ")
        == len(inspect.signature(edgewise.compile).parameters) - 1
    )


@pytest.mark.landing
def test_pages_of_a_prompt_are_shipped_with_the_bundle(
    checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "system.txt").write_text("You answer in one word. " * 6, "utf-8")
    made = edgewise.compile(
        checkpoints(CASE), tmp_path / "out", quant="q4", prefix=tmp_path / "system.txt"
    )
    with closing(Bundle.open(made)) as bundle:
        (index,) = packs_of(bundle).values()
    assert [pack.name for pack in index.packs] == ["system"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "model-balanced"),
        ({"quant": "q8"}, "model-q8"),
        ({"recipe": "recipes/mine.toml"}, "model-mine"),
        ({"bits": 4.5}, "model-b4.5"),
        ({"quant": "q4", "kv": "int8"}, "model-q4-kv8"),
    ],
)
def test_a_bundle_is_named_after_its_checkpoint_and_how_it_is_stored(
    tmp_path: Path, given: dict[str, Any], name: str
) -> None:
    asked = {"quant": None, "recipe": None, "bits": None, "kv": "auto", **given}
    assert output_folder(tmp_path / "model", **asked) == Path("dist") / name


def test_a_file_that_is_kept_as_it_is_gives_its_own_name(tmp_path: Path) -> None:
    file = tmp_path / "tiny.Q4_0.gguf"
    file.touch()
    asked: dict[str, Any] = {"recipe": None, "bits": None, "kv": "auto"}
    assert output_folder(file, quant=None, **asked) == Path("dist/tiny.Q4_0")
    assert output_folder(file, quant="q8", **asked) == Path("dist/tiny.Q4_0-q8")


def test_two_ways_to_store_weights_are_refused(checkpoints: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="quant and bits both say") as caught:
        edgewise.compile(checkpoints(CASE), quant="q4", bits=5)
    assert caught.value.code == "input.option"


@pytest.mark.parametrize("target", ["cpu,abacus", ["cpu", "abacus"]])
def test_targets_are_a_list_or_as_the_command_writes_them(
    checkpoints: Callable[[str], Path], tmp_path: Path, target: Any
) -> None:
    with pytest.raises(UnsupportedError, match="no target 'abacus'"):
        edgewise.compile(checkpoints(CASE), tmp_path / "out", target=target)
