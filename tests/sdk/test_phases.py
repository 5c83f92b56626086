"""Progress: bars in a terminal, a callback where there is one, and nothing otherwise."""

from __future__ import annotations

import os
import pty
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from edgewise import Engine
from edgewise.phases import told

COLUMNS = 60


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A terminal as the standard error of a block; what it showed, afterwards."""
    ours, theirs = pty.openpty()
    shown: list[str] = []
    reader = Thread(target=lambda: shown.append(_read(ours)))
    reader.start()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(COLUMNS))
        patch.setenv("TERM", "xterm")
        # Closing it is what ends the reader.
        with open(theirs, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
            patch.setattr("sys.stderr", stream)
            yield shown
    reader.join()
    os.close(ours)


def _read(descriptor: int) -> str:
    found = b""
    with suppress(OSError):  # Linux has no other word for the end of a terminal.
        while more := os.read(descriptor, 1 << 16):
            found += more
    return found.decode()


def test_a_checkpoint_used_from_python_shows_bars_in_a_terminal(
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checkpoint = shutil.copytree(checkpoints("llama-mha"), tmp_path / "tiny")
    with terminal(monkeypatch) as shown, Engine(checkpoint) as engine:
        assert engine.generate("A", max_tokens=1).token_ids
    assert f"Compiling {checkpoint} once, to {tmp_path}" in shown[0]
    assert "Packing weights" in shown[0]
    assert "100 %" in shown[0]
    with terminal(monkeypatch) as shown:
        Engine(checkpoint).close()
    assert shown == [""]
    assert capsys.readouterr().out == ""


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with told(None, "Working") as tell:
        assert tell is None
    assert capsys.readouterr() == ("", "")


def test_who_wants_to_be_told_is_told_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def hear(phase: str, done: int, total: int) -> None: ...

    with terminal(monkeypatch) as shown, told(hear, "Working") as tell:
        assert tell is hear
    assert shown == [""]


def test_a_terminal_hears_nothing_before_the_first_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as idle, told(None, "Working"):
        pass
    assert idle == [""]
    with terminal(monkeypatch) as busy, told(None, "Working") as tell:
        assert tell is not None
        tell("Reading", 0, 2)
        tell("Reading", 2, 2)
    assert busy[0].startswith("Working\r\n")
    assert "✓ Reading" in busy[0]
