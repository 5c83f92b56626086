"""Names, errors and answers that would give the terminal orders are shown by every command."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest

from edgewise.cli.main import main
from edgewise.cli.output import write_piece
from tests.runtime.test_shown import CLIPBOARD, TITLE, orders

NAME = f"tiny{CLIPBOARD}{TITLE}[red]"


@pytest.fixture
def listed(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle in ./dist whose name gives orders, and one that is damaged."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundle, Path("dist") / NAME)
    damaged = Path("dist") / f"damaged{NAME}"
    damaged.mkdir()
    (damaged / "bundle.json").write_text(f'{{"{TITLE}": 1}}')
    Path("text.txt").write_text("A model is a plan. " * 30)


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    "words",
    [
        ("ls",),
        ("inspect", NAME),
        ("inspect", NAME, "--plan", "decode"),
        ("inspect", NAME, "--plan", CLIPBOARD),
        ("inspect", f"damaged{NAME}"),
        ("run", f"dist/damaged{NAME}", "x"),
        ("run", f"dist/{CLIPBOARD}", "x"),
        ("rm", "--yes", NAME),
        ("rm", CLIPBOARD),
        ("diff", f"dist/{NAME}", f"dist/damaged{NAME}"),
        ("eval", f"dist/damaged{NAME}", "--text", "text.txt"),
        ("eval", f"dist/{NAME}", "--text", CLIPBOARD),
    ],
    ids=lambda words: words[0],
)
def test_a_command_shows_foreign_names(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    out, err = capsys.readouterr()
    assert out + err != ""
    assert orders(out + err) == []


@pytest.mark.usefixtures("listed")
def test_so_does_what_is_printed_for_who_looks_for_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_DEBUG", "1")
    main(["inspect", CLIPBOARD])
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert orders(err) == []


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "kept"), [(_Terminal(), False), (io.StringIO(), True)], ids=["terminal", "pipe"]
)
def test_an_answer_is_shown_in_a_terminal_and_written_as_it_is_to_a_pipe(
    stream: io.StringIO, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    for piece in ("said", "\x1b", "]0;x\x07", "\n"):
        write_piece(piece)
    assert (stream.getvalue() == "said\x1b]0;x\x07\n") is kept
    assert (orders(stream.getvalue()) == []) is not kept
