"""Progress: bars in a terminal, a callback where there is one, and nothing otherwise."""

from __future__ import annotations

import io
import os
import pty
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from rich.console import Console

from edgewise import Engine, phases
from edgewise.phases import Phases, in_bytes, told
from edgewise_compiler.phases import IN_BYTES, PACKING, WRITING

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


@pytest.mark.landing
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


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of progress."""
    found = Clock()
    monkeypatch.setattr(phases, "perf_counter", found)
    return found


def shown_of(
    steps: Iterable[tuple[float, int]], clock: Clock, *, terminal: bool, width: int
) -> str:
    """What is shown of packing 8 GiB: seconds that pass before each number of bytes."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=width, color_system=None)
    total = 8 << 30
    with Phases(console) as shown:
        for seconds, done in steps:
            clock.now += seconds
            shown(PACKING, done, total)
    return stream.getvalue()


HALF_IN_FOUR_MINUTES = [(0.0, 0), *((1.0, (i + 1) * (16 << 20)) for i in range(256))]


def test_a_terminal_sees_bytes_rate_and_time_left(clock: Clock) -> None:
    shown = shown_of(HALF_IN_FOUR_MINUTES, clock, terminal=True, width=100)
    assert "Packing weights" in shown
    assert " 50 % of 8.0 GiB, 16.0 MiB/s, 0:04:16 left" in shown


def test_a_narrow_terminal_sees_bytes_and_time_left(clock: Clock) -> None:
    shown = shown_of(HALF_IN_FOUR_MINUTES, clock, terminal=True, width=60)
    assert " 50 % of 8.0 GiB, 0:04:16 left" in shown
    assert "MiB/s" not in shown


def test_without_a_terminal_what_takes_long_is_told_of_now_and_then(clock: Clock) -> None:
    ended = [*HALF_IN_FOUR_MINUTES, (128.0, 8 << 30)]
    lines = shown_of(ended, clock, terminal=False, width=100).splitlines()
    assert lines[0] == "Packing weights: 1 % of 8.0 GiB, 16.0 MiB/s, 0:08:22 left"
    assert lines[1] == "Packing weights: 3 % of 8.0 GiB, 16.0 MiB/s, 0:08:12 left"
    assert lines[-1] == "Packing weights: 384.0 s, 8.0 GiB, 21.3 MiB/s"
    assert len(lines) == 26
    assert not any("\x1b" in line for line in lines)


def test_without_a_terminal_what_is_quick_is_one_line(clock: Clock) -> None:
    lines = shown_of([(0, 0), (0.5, 1), (0.5, 8 << 30)], clock, terminal=False, width=100)
    assert lines == "Packing weights: 1.0 s\n"


def test_phases_that_grow_with_a_model_count_bytes() -> None:
    assert all(map(in_bytes, IN_BYTES))
    assert not in_bytes(WRITING)
