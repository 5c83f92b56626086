"""What `edgewise ls` prints, and that its names mean the same to every command."""

from __future__ import annotations

import io
import shutil
from dataclasses import astuple
from pathlib import Path

import pytest
from rich.console import Console

from edgewise import Engine
from edgewise.cache import bundles_folder
from edgewise.cli.ls import Row, show
from edgewise.cli.main import main
from edgewise.hosting.facts import facts_of_bundle
from edgewise.units import weights
from tests.sdk.cli.conftest import Run

NAME = "tiny-q4"
ROWS = [
    Row("demo-q4", "4.2 MiB", "4.0M", "q4", "512", "chat", "cpu, webgpu", "dist"),
    Row("SmolLM2-135M-Instruct", "105.9 MiB", "134.5M", "balanced", "2048", "chat", "cpu", "dist"),
    Row("SmolLM2-135M.Q4_1-0a1b2c3d4e5f", "93.1 MiB", "134.5M", "q4", "4096", "", "cpu", "cache"),
]
ABOUT = ("1.1 GiB", "1.7B", "balanced", "131072", "chat, tools, thinking", "cpu, webgpu", "cache")
LONG = Row("A" * 70 + "-balanced", *ABOUT)


@pytest.fixture
def stored(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle in ./dist, which is called NAME; none in the cache, where other tests leave some."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(bundle, Path("dist") / NAME)
    Path("text.txt").write_text("A model is a plan: a list of kernels, and a few numbers. " * 9)


def shown(rows: list[Row], width: int) -> list[str]:
    written = io.StringIO()
    show(Console(file=written, width=width, force_terminal=True, color_system=None), rows)
    return [line.rstrip() for line in written.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 60, 40])
def test_it_fits_a_terminal_and_names_stay_in_one_piece(width: int) -> None:
    lines = shown(ROWS, width)
    assert max(map(len, lines)) <= width
    for row in ROWS:
        assert any(row.name in line.split() for line in lines)
        for fact in astuple(row):
            assert fact in " ".join(" ".join(lines).split())


def test_where_there_is_room_it_is_a_table() -> None:
    heading, *lines = shown(ROWS, 110)
    columns = ["name", "size", "parameters", "weights", "context", "can", "targets", "where"]
    assert heading.split() == columns
    assert len(lines) == len(ROWS)


def test_a_name_longer_than_a_line_is_not_cut() -> None:
    assert LONG.name in shown([*ROWS, LONG], 60)


def test_what_a_model_is_and_can_do_is_told(edgewise: Run, stored: None) -> None:
    facts = facts_of_bundle(NAME, Path("dist") / NAME)
    _, line = edgewise("ls").splitlines()
    for told in (weights(facts.parameters), facts.quant, str(facts.context), "cpu", "dist"):
        assert f" {told} " in f"{line} "


def test_names_of_the_cache_are_listed_and_what_is_being_written_is_not(
    edgewise: Run, bundle: Path, stored: None
) -> None:
    shutil.copytree(bundle, bundles_folder() / "kept-0a1b2c3d4e5f")
    shutil.copytree(bundle, bundles_folder() / ".kept-0a1b2c3d4e5f.0123456789ab.tmp")
    lines = [line.split() for line in edgewise("ls").splitlines()[1:]]
    assert [(line[0], line[-1]) for line in lines] == [
        (NAME, "dist"),
        ("kept-0a1b2c3d4e5f", "cache"),
    ]


def test_a_bundle_that_cannot_be_used_is_listed_with_the_reason(
    edgewise: Run, stored: None
) -> None:
    (Path("dist") / NAME / "tokenizer.json").write_text("{}")
    said = edgewise("ls")
    assert f"{NAME} is unusable: " in said
    assert "has 2 bytes" in said


@pytest.mark.parametrize(
    "line",
    [
        "chat NAME --question Hi --max-tokens 2",
        "run NAME Hi --max-tokens 2",
        "run NAME Hi --max-tokens 2 --draft NAME",
        "inspect NAME",
        "diff NAME NAME",
        "eval NAME NAME --text text.txt --context 64",
    ],
)
def test_a_name_that_is_listed_is_one_that_commands_take(line: str, stored: None) -> None:
    assert main(line.replace("NAME", NAME).split()) == 0


def test_a_program_of_a_bundle_may_be_named_by_its_name(edgewise: Run, stored: None) -> None:
    with Engine(NAME) as engine:
        assert engine.name
        program = engine.program
    assert "No kernel departs" in edgewise("diff", f"{NAME}:{program}", NAME)


def test_a_server_looks_for_a_name_where_it_is_listed(
    stored: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", NAME, "--no-api"]) == 1
    assert f"--target webgpu -o dist/{NAME}" in " ".join(capsys.readouterr().err.split())


def test_a_path_comes_before_a_name(bundle: Path, stored: None) -> None:
    shutil.copytree(bundle, NAME)
    shutil.rmtree(Path("dist") / NAME / "programs")
    with Engine(NAME) as engine:
        assert engine.generate("Hi", max_tokens=1).token_ids
