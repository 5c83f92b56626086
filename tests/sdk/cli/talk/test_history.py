"""What was typed is there again next time, for this user alone, and never much of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from edgewise.cli.talk.history import (
    MAX_BYTES,
    MAX_CHARACTERS,
    MAX_MESSAGES,
    KeptHistory,
    history_file,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state/edgewise/history.jsonl"


def kept(path: Path) -> list[str]:
    """What the next conversation finds, the oldest first."""
    return list(KeptHistory(path).load_history_strings())[::-1]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_messages_outlive_the_conversation(path: Path) -> None:
    typed = ["one", "two\nlines", "drei: ä 🙂 \u2028 \\n", '"quoted"']
    for text in typed:
        KeptHistory(path).append_string(text)
    assert kept(path) == typed


def test_nobody_else_may_read_them(path: Path) -> None:
    KeptHistory(path).append_string("secret")
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    path.chmod(0o644)
    KeptHistory(path).append_string("another")
    assert mode(path) == 0o600


def test_there_are_never_more_than_so_many(path: Path) -> None:
    history = KeptHistory(path)
    for i in range(MAX_MESSAGES + 5):
        history.store_string(str(i))
    assert kept(path) == [str(i) for i in range(5, MAX_MESSAGES + 5)]
    assert len(path.read_bytes().splitlines()) == MAX_MESSAGES
    assert mode(path) == 0o600


def test_nor_more_than_so_many_bytes(path: Path) -> None:
    history = KeptHistory(path)
    long = "x" * MAX_CHARACTERS
    for i in range(MAX_BYTES // MAX_CHARACTERS + 3):
        history.store_string(f"{i}{long}"[:MAX_CHARACTERS])
    history.store_string("last")
    found = kept(path)
    assert found[-1] == "last"
    assert 50 < len(found) < MAX_BYTES // MAX_CHARACTERS + 3
    assert path.stat().st_size <= MAX_BYTES


def test_a_text_that_was_pasted_is_not_kept(path: Path) -> None:
    KeptHistory(path).store_string("x" * (MAX_CHARACTERS + 1))
    assert kept(path) == []


def test_lines_that_are_no_messages_are_left_out(path: Path) -> None:
    path.parent.mkdir(parents=True)
    lines = [b'"one"', b"not json", b"3", b"null", b'["a"]', b'""', b'"\\ud800"', b"\xff", b'"two"']
    path.write_bytes(b"\n".join([*lines, b"[" * 100_000, b'"half']))
    assert kept(path) == ["one", "two"]


def test_where_it_cannot_be_kept_the_conversation_goes_on(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.mkdir()
    history = KeptHistory(path)
    assert list(history.load_history_strings()) == []
    history.append_string("typed")
    assert history.get_strings() == ["typed"]


def test_it_is_in_the_users_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "edgewise/history.jsonl"
