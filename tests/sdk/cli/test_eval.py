"""What `edgewise eval` prints, writes and refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from edgewise import evaluate
from edgewise.cli.eval import show
from edgewise.cli.main import main
from tests.sdk.cli.conftest import Run

TEXT = "A model is a plan: a list of kernels, a static memory layout, and a few numbers. " * 9


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


def test_the_figures_are_printed_and_written(edgewise: Run, bundle: Path, text: Path) -> None:
    out = edgewise("eval", bundle, bundle, "--text", text, "--context", 64, "--json", "out.json")
    expected = evaluate(bundle, bundle, TEXT, context=64)
    assert f"{expected.scored_tokens} tokens scored" in out
    assert out.count(f"{expected.model.perplexity:,.4f}") == 2
    assert out.count(f"{expected.model.bits_per_weight:.3f} bits") == 2
    assert out.count("tokens/s") == 2
    assert "0.000000 nats" in out
    assert "100.00%" in out
    written = json.loads(Path("out.json").read_text())
    assert written["apart"] == {"mean": 0, "median": 0, "p999": 0, "same_top1": 1}
    assert written["model"]["perplexity"] == expected.model.perplexity
    assert written["model"]["bits_per_weight"] == expected.model.bits_per_weight
    assert written["windows"] == expected.windows


def test_without_a_reference_nothing_is_compared(edgewise: Run, bundle: Path, text: Path) -> None:
    out = edgewise("eval", bundle, "--text", text, "--context", 64, "--tokens", 64, "--json", "o")
    assert "31 tokens scored" in out
    assert "KL" not in out
    written = json.loads(Path("o").read_text())
    assert written["reference"] is written["apart"] is None


def test_a_narrow_terminal_shows_every_figure(bundle: Path) -> None:
    shown = io.StringIO()
    found = evaluate(bundle, bundle, TEXT, context=64)
    show(Console(file=shown, width=40, force_terminal=True, color_system=None), found)
    for line in shown.getvalue().splitlines():
        assert len(line) <= 40
        assert "…" not in line
    for words in ("perplexity", "bits", "tokens/s", "KL, mean", "KL, median", "KL, 99.9%", "top-1"):
        assert words in shown.getvalue()


def test_a_gguf_file_is_not_compiled(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.gguf").write_bytes(b"GGUF")
    assert main(["eval", "model.gguf", "--text", str(text)]) == 1
    said = capsys.readouterr().err
    assert "[unsupported.llama_cpp]" in said
    assert "Compiling" not in said


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["nowhere", "--text", "text.txt"], "input.model"),
        (["BUNDLE", "nowhere.gguf", "--text", "text.txt"], "input.model"),
        (["BUNDLE", "--text", "nowhere.txt"], "storage.missing"),
        (["BUNDLE", "--text", "."], "storage.type"),
        (["BUNDLE", "--text", "binary"], "input.text"),
        (["BUNDLE", "--text", "empty"], "input.text"),
        (["BUNDLE", "--text", "text.txt", "--context", "0"], "input.range"),
        (["BUNDLE", "--text", "text.txt", "--tokens", "-1"], "input.range"),
        # Its folder is looked for before anything is scored.
        (["BUNDLE", "--text", "empty", "--json", "nowhere/out.json"], "storage.missing"),
    ],
)
def test_what_cannot_be_scored_is_said_in_a_sentence(
    bundle: Path,
    text: Path,
    argv: list[str],
    code: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("binary").write_bytes(b"\xff\xfe\x00")
    Path("empty").touch()
    argv = [str(bundle) if word == "BUNDLE" else word for word in argv]
    assert main(["eval", *argv, *([] if "--context" in argv else ["--context", "64"])]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert f"[{code}]" in said
    assert sorted(path.name for path in Path().iterdir()) == ["binary", "empty", "text.txt"]
