"""Conversations come back from files as they were; what is none is refused and left alone."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from edgewise.cli.talk.conversation import Turn
from edgewise.cli.talk.saved import load, save
from edgewise_runtime.errors import EdgewiseError, InputError, StorageError

TURNS = (Turn("one\ntwo", "<think>\nhm\n</think>\n\nÆrø 🙂"), Turn("again", ""))
USER, ASSISTANT = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


@pytest.mark.parametrize("system", [None, "Be kind."])
def test_a_conversation_comes_back(tmp_path: Path, system: str | None) -> None:
    path = tmp_path / "talk.json"
    save(path, "tiny", system, TURNS)
    found = load(path)
    assert (found.system, found.turns) == (system, TURNS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    save(path, "tiny", system, TURNS[:1])
    assert load(path).turns == TURNS[:1]


def test_its_messages_are_those_that_other_programs_know(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    save(path, "tiny", "S", [Turn("q", "a", (1, 2))])
    table = json.loads(path.read_text())
    assert table["messages"] == [{"role": "system", "content": "S"}, USER, ASSISTANT]
    assert table["model"] == "tiny"


@pytest.mark.parametrize("text", ["", "mine", "{}", '{"format": "conversation"}'])
def test_another_file_is_not_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="no conversation") as caught:
        save(path, "tiny", None, TURNS)
    assert caught.value.code == "input.file"
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["missing/talk.json", "folder"])
def test_where_nothing_can_be_written_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(EdgewiseError):
        save(tmp_path / name, "tiny", None, TURNS)


def test_where_nothing_is_to_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"talk\.json"):
        load(tmp_path / "talk.json")


def written(messages: Any, **changes: Any) -> str:
    table = {"format": "conversation", "version": 1, "model": "m", "messages": messages}
    return json.dumps({**table, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"format": "conversation", "format": "conversation"}',
        written([USER, ASSISTANT], version=2),
        written([USER, ASSISTANT], format="else"),
        written([USER, ASSISTANT], more=1),
        written("text"),
        written([USER]),
        written([ASSISTANT, USER]),
        written([USER, USER]),
        written([USER, ASSISTANT, {"role": "system", "content": "late"}, ASSISTANT]),
        written([USER, {"role": "assistant", "content": None}]),
        written([USER, {"role": "assistant"}]),
        written([{**USER, "more": 1}, ASSISTANT]),
        written([3, 4]),
        "[" * 10_000,
    ],
)
def test_what_is_no_conversation_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "talk.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"talk\.json"):
        load(path)
