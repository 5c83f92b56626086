"""Cold start is that of the checkout named, and both are asked alike."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import cold


def test_a_process_uses_the_checkout_it_is_given_and_keeps_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name in cold.PACKAGES:
        (tmp_path / name).mkdir()
    (tmp_path / "sdk" / "whose.py").write_text("")

    assert cold.seconds(tmp_path, ["-c", "import whose"]) > 0

    assert (tmp_path / "sdk" / "__pycache__").is_dir()


def test_what_is_asked_is_what_this_checkout_answers() -> None:
    assert cold.seconds(cold.HERE, cold.QUESTIONS["import"]) > 0


def test_a_process_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        cold.seconds(tmp_path, ["-c", "raise SystemExit(3)"])
