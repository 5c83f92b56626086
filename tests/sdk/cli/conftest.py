"""Commands run in this process."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from edgewise.cli.main import main

Run = Callable[..., str]


@pytest.fixture
def edgewise(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``edgewise("ls", stdin="…", status=0)``: run a command, return what it wrote to stdout."""

    def run(*argv: object, stdin: str = "", status: int = 0) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        found = main([str(arg) for arg in argv])
        written = capsys.readouterr()
        assert found == status, written.err
        return written.out

    return run
