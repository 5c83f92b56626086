"""What a model writes is read into what is said, what was thought and what is called."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise import InputError, ToolCall, deltas
from edgewise.answers import Completion
from edgewise.reading import Readers, Reading, opens_thought
from edgewise.tools import Tool, tool_of
from edgewise_runtime.calls import FORMATS, format_named
from edgewise_runtime.engine.completion import Completion as Written
from edgewise_runtime.engine.completion import FinishReason, Timings, Usage
from edgewise_runtime.engine.sequence import Piece as WrittenPiece

HERMES, HARMONY = format_named("hermes"), format_named("harmony")
CALL = '<tool_call>\n{"name": "add", "arguments": {"x": 1, "y": 2}}\n</tool_call>'
TIMES = Timings(0.0, 0.0, 0.0, 0, 0)


def add(x: int, y: int = 0) -> int:
    """Add two numbers."""
    return x + y


ADD = tool_of(add)


def written(text: str, reason: FinishReason = "stop", index: int = 0) -> Written:
    return Written(text, (1, 2), reason, Usage(3, 2), TIMES, seed=5, index=index)


def read(text: str, reason: FinishReason = "stop", **reading: Any) -> Completion:
    return Reading(**reading).completion(written(text, reason))


def test_nothing_is_told_apart_where_nothing_is_asked() -> None:
    text = f"<think>why</think> {CALL}"
    found = read(text)
    assert (found.text, found.written, found.reasoning, found.tool_calls) == (text, text, "", ())
    assert found.finish_reason == "stop"
    assert Reading().shown == ()


def test_a_call_is_told_from_what_is_said() -> None:
    found = read(f"<think>\nAdd.\n</think>\n\nWait.\n{CALL}", form=HERMES, calls=True, tools=(ADD,))
    assert (found.text, found.reasoning, found.finish_reason) == ("Wait.", "Add.", "tool_calls")
    [call] = found.tool_calls
    assert (call.name, call.arguments, call.text) == ("add", {"x": 1, "y": 2}, '{"x": 1, "y": 2}')
    assert call.call() == 3
    assert call.result(3) == {
        "role": "tool",
        "tool_call_id": call.id,
        "name": "add",
        "content": "3",
    }
    assert found.message() == {
        "role": "assistant",
        "content": "Wait.",
        "reasoning_content": "Add.",
        "tool_calls": [call.to_json()],
    }
    assert found.to_json()["tool_calls"] == [call.to_json()]
    assert found.to_json()["reasoning"] == "Add."


def test_a_message_that_is_only_calls_has_no_content() -> None:
    found = read(CALL, form=HERMES, calls=True, tools=(ADD,))
    assert found.message()["content"] is None


@pytest.mark.parametrize("reason", ["length", "cancelled", "timeout"])
def test_only_an_answer_that_ended_itself_ends_with_calls(reason: FinishReason) -> None:
    found = read(CALL, reason, form=HERMES, calls=True, tools=(ADD,))
    assert (len(found.tool_calls), found.finish_reason) == (1, reason)


def test_a_call_that_was_cut_is_in_the_text() -> None:
    text = f"Wait.{CALL[:40]}"
    found = read(text, "length", form=HERMES, calls=True, tools=(ADD,))
    assert (found.text, found.tool_calls) == (text, ())


def test_without_tools_calls_are_text_and_thoughts_are_not() -> None:
    found = read(f"\n<think>Hm.</think>\n{CALL} ", form=HERMES)
    assert (found.text, found.reasoning, found.tool_calls) == (f"{CALL} ", "Hm.", ())


def test_a_thought_may_have_begun_in_the_prompt() -> None:
    found = read("Hm.</think>\n\nYes.", form=HERMES, opened=True)
    assert (found.reasoning, found.text) == ("Hm.", "Yes.")
    assert opens_thought(HERMES, "<|assistant|>\n<think>\n")
    assert not opens_thought(HERMES, "<think>\n\n</think>\n\n")
    assert not opens_thought(HARMONY, "<|start|>assistant<think>")


def test_channels_are_told_apart_with_and_without_tools() -> None:
    thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    text = f"{thought}<|channel|>final<|message|>Yes."
    for calls in (False, True):
        found = read(text, form=HARMONY, calls=calls)
        assert (found.reasoning, found.text) == ("Hm.", "Yes.")


def test_calls_have_the_same_ids_whenever_they_are_read() -> None:
    reading = Reading(HERMES, calls=True, tools=(ADD,))
    ids = [call.id for _ in range(2) for call in reading.completion(written(CALL * 2)).tool_calls]
    assert ids[:2] == ids[2:]
    other = [call.id for call in reading.completion(written(CALL * 2, index=1)).tool_calls]
    again = [call.id for call in Reading(HERMES, calls=True).completion(written(CALL)).tool_calls]
    assert len({*ids, *other, *again}) == 5
    assert all(len(one) == 9 and one.isalnum() for one in ids)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_pieces_come_to_what_the_completion_is(size: int) -> None:
    text = f"<think>Hm.</think>Wait. {CALL}{CALL} Done? <tool_call>no"
    reading = Reading(HERMES, calls=True, tools=(ADD,))
    readers = Readers(reading, [0])
    pieces = [
        readers.piece(WrittenPiece(text[i : i + size], (i,))) for i in range(0, len(text), size)
    ]
    rest = readers.end(0)
    pieces += [rest] if rest else []
    found = reading.completion(written(text))
    told = [delta for piece in pieces for delta in piece.deltas]
    assert "".join(piece.text for piece in pieces) == found.text
    assert "".join(piece.written for piece in pieces) == found.written == text
    assert found.reasoning == "".join(d.text for d in told if isinstance(d, deltas.Reasoning))
    begun = [(d.id, d.name) for d in told if isinstance(d, deltas.CallBegins)]
    assert begun == [(call.id, call.name) for call in found.tool_calls]
    for index, call in enumerate(found.tool_calls):
        parts = [d.text for d in told if isinstance(d, deltas.Arguments) and d.index == index]
        assert "".join(parts) == call.text


def test_reading_goes_on_after_what_was_there_before() -> None:
    text = f"<think>Hm.</think>{CALL}"
    for cut in range(text.index("}}")):
        reading = Reading(HERMES, calls=True, tools=(ADD,), before=text[:cut])
        readers = Readers(reading, [0])
        told = [*readers.piece(WrittenPiece(text[cut:], (1,))).deltas]
        rest = readers.end(0)
        told += rest.deltas if rest else ()
        assert any(isinstance(delta, deltas.CallEnds) for delta in told)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_without_tools_only_marks_that_are_read_are_shown(form: Any) -> None:
    assert set(Reading(form).shown) <= set(form.shown)
    assert Reading(form, calls=True).shown == form.shown


def call(name: str = "add", text: str = '{"x": 1}', tool: Tool | None = ADD) -> ToolCall:
    return ToolCall("id", name, text, tool)


def test_only_a_function_is_called() -> None:
    with pytest.raises(InputError, match="not there") as caught:
        call("sub", tool=None).call()
    assert caught.value.code == "input.tool_call"
    schema = tool_of({"name": "add", "parameters": {"type": "object"}})
    assert call(tool=schema).read() == {"x": 1}
    with pytest.raises(InputError, match="no Python function"):
        call(tool=schema).call()
    with pytest.raises(InputError, match="none of add") as caught:
        call(text='{"x": "one"}').call()
    assert caught.value.code == "input.arguments"


def test_a_result_is_text_or_json() -> None:
    assert call().result("Zürich")["content"] == "Zürich"
    assert call().result({"city": "Zürich"})["content"] == '{"city": "Zürich"}'
    with pytest.raises(InputError, match="neither text nor JSON") as caught:
        call().result(object())
    assert caught.value.code == "input.tool_result"
