"""A checkpoint that is used directly is compiled as its options say, and one sees it."""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.cache import bundles_folder
from edgewise.cli.api import models_of
from edgewise.cli.main import main, parse
from edgewise.server.operations.counts import Counts
from edgewise.server.operations.environment import fill
from edgewise_runtime.format.bundle import Bundle


class Terminal(io.StringIO):
    """What is written to it, as a terminal gets it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def fresh(
    checkpoints: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A checkpoint that nobody has compiled yet; it has room for 256 tokens."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(checkpoints("llama-mha"), tmp_path / "fresh"))


@pytest.mark.landing
def test_it_is_compiled_as_it_is_told_with_a_bar(
    fresh: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    line = ["run", str(fresh), "--quant", "q8", "--context", "64", "x", "--max-tokens", "2"]
    assert main(line) == 0
    (made,) = bundles_folder().iterdir()
    assert made.name.startswith("fresh-q8-")
    assert Bundle.open(made).model.stored == "q8"
    shown = screen.getvalue()
    assert "Packing weights" in shown
    assert "━" in shown
    assert capsys.readouterr().out.endswith("\n")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--context", "5000"], "input.range"),
        (["--device", "tpu"], "input.device"),
        (["--device", "wgpu:99"], "device.adapter"),
        (["--threads", "0", "--device", "cpu"], "device.threads"),
    ],
)
def test_what_cannot_be_is_said_before_it_is_compiled(
    fresh: Path, options: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(fresh), *options, "x"]) == 1
    said = capsys.readouterr().err
    assert f"[{code}]" in said
    assert "Packing weights" not in said
    assert not any(bundles_folder().glob("*"))


@pytest.mark.landing
def test_what_is_served_is_compiled_before_anybody_asks(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = parse(["serve", str(fresh), "--context", "64"])
    models = models_of(fill(args, args.settings, {}), [str(fresh)], Counts())
    assert models is not None
    (made,) = bundles_folder().iterdir()
    assert f"Compiling {fresh} once, to {made}" in " ".join(capsys.readouterr().err.split())
    facts = asyncio.run(models.facts("fresh"))
    assert facts is not None
    assert (facts.name, facts.context) == ("fresh", 64)
    again = models_of(args, [str(fresh)], Counts())
    assert again is not None
    assert again.names() == ["fresh"]
    assert capsys.readouterr().err == ""
