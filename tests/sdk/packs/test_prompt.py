"""What a file says of a prompt, and which of its tokens every continuation begins with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgewise.packs.prompt import PackPrompt, read_prompt
from edgewise.texts import Texts
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle

SYSTEM = {"role": "system", "content": "You are terse."}
USER = {"role": "user", "content": "What is a page?"}
TOOL = {
    "type": "function",
    "function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}},
}
FOLLOWING = ("Hello there", "1", " space", "\n", "<|x|>", "été", "日本")


@pytest.fixture(scope="module")
def texts(demo_bundle: Path) -> Texts:
    return Texts(Bundle.open(demo_bundle))


def written(folder: Path, content: Any) -> Path:
    file = folder / "prompt.json"
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize("messages", [[SYSTEM], [SYSTEM, USER], [USER]])
def test_whatever_follows_begins_with_what_is_shared(
    texts: Texts, messages: list[dict[str, str]]
) -> None:
    shared = PackPrompt(messages=messages).shared(texts)
    assert len(shared) > 5
    for more in FOLLOWING:
        asked = {"role": "user", "content": more}
        answer = {"role": "assistant", "content": more}
        going_on = [*messages, *([answer] if messages[-1] is USER else []), asked]
        ids = texts.ids_of_chat(going_on, None, None, {})
        assert ids[: len(shared)] == shared


def test_a_text_is_a_system_prompt_without_its_last_line_breaks(tmp_path: Path) -> None:
    file = tmp_path / "terse.txt"
    file.write_bytes("You are terse.\n\nÄh.\r\n\n".encode())
    said = "You are terse.\n\nÄh."
    assert read_prompt(file, plain=False).messages == [{"role": "system", "content": said}]
    assert read_prompt(file, plain=True).text == said


def test_a_plain_text_goes_on_with_any_other(texts: Texts) -> None:
    shared = PackPrompt(text="Once upon a time there was").shared(texts)
    for more in FOLLOWING:
        ids = texts.tokenizer.encode(f"Once upon a time there was{more}")
        assert tuple(ids[: len(shared)]) == shared


def test_json_is_messages_or_messages_and_tools(tmp_path: Path) -> None:
    assert read_prompt(written(tmp_path, [SYSTEM]), plain=False).messages == [SYSTEM]
    both = read_prompt(written(tmp_path, {"messages": [SYSTEM], "tools": [TOOL]}), plain=False)
    assert (both.messages, both.tools) == ([SYSTEM], [TOOL])


NEITHER: list[Any] = ["text", {}, [], [3], {"messages": []}]
WRONG_BESIDE = [{"messages": [SYSTEM], "tools": 3}, {"messages": [SYSTEM], "more": 1}]


@pytest.mark.parametrize("content", [*NEITHER, *WRONG_BESIDE])
def test_json_of_anything_else_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(EdgewiseError) as error:
        read_prompt(written(tmp_path, content), plain=False)
    assert error.value.code == "input.prefix"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\xfe"])
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(data)
    with pytest.raises(EdgewiseError) as error:
        read_prompt(file, plain=False)
    assert error.value.code == "input.prefix"


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EdgewiseError) as error:
        read_prompt(tmp_path / "none", plain=False)
    assert error.value.code.startswith("storage.")
