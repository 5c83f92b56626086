"""Deltas of an answer told into blocks, however they are cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, Delta, NoCall, Reasoning
from edgewise.server.anthropic.blocks import SIGNATURE, Blocks
from edgewise_runtime.errors import EngineError
from tests.sdk.server.anthropic.folding import folded

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 0},
    },
}


def call(index: int, arguments: str = '{"x": 1}', name: str = "add") -> list[Delta]:
    return [CallBegins(index, f"id{index}", name), Arguments(index, arguments), CallEnds(index)]


def no_call(index: int | None, text: str) -> list[Delta]:
    """What began as a call, perhaps so far that it had a name, and is none."""
    begun: list[Delta] = [] if index is None else call(index, '{"x')[:2]
    return [*begun, NoCall(index, text, "cut")]


def told(pieces: Sequence[Sequence[Delta]], **how: bool) -> tuple[list[dict[str, Any]], Blocks]:
    """The events of an answer that comes in these pieces."""
    blocks = Blocks(**how)
    return [*(one for piece in pieces for one in blocks.of(piece)), *blocks.end()], blocks


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def thought(said: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": said, "signature": SIGNATURE}


def used(index: int, name: str = "add") -> dict[str, Any]:
    return {"type": "tool_use", "id": f"id{index}", "name": name, "input": {"x": 1}}


@pytest.mark.parametrize(
    ("deltas", "content"),
    [
        ([], []),
        ([Content("Hello")], [text("Hello")]),
        ([Content("\n\n")], []),
        ([Content("\n\n"), Content("Hello \n")], [text("\n\nHello \n")]),
        ([Reasoning("\nWhy? "), Reasoning("So\n"), Content("a")], [thought("Why? So"), text("a")]),
        ([Reasoning(" \n"), Content("Hi")], [text("Hi")]),
        ([Reasoning("Add."), Content("\n\n"), *call(0)], [thought("Add."), used(0)]),
        ([*call(0), Content("\n"), *call(1)], [used(0), used(1)]),
        ([Content("I add. "), *call(0), Content("Done")], [text("I add. "), used(0), text("Done")]),
        ([Content("a "), *no_call(0, "<tool_call>{"), Content(" b")], [text("a <tool_call>{ b")]),
        ([*no_call(None, "<tool_"), *call(1)], [text("<tool_"), used(1)]),
        ([*call(0), *no_call(1, "<tool_call>x")], [used(0), text("<tool_call>x")]),
        ([Reasoning("a"), Content("b"), Reasoning("c")], [thought("a"), text("b"), thought("c")]),
    ],
)  # fmt: skip
def test_an_answer_is_blocks_in_their_order(
    deltas: list[Delta], content: list[dict[str, Any]]
) -> None:
    events, blocks = told([deltas])
    assert blocks.content == content
    assert folded([START, *events])["content"] == content


def test_a_call_of_a_whole_answer_is_one_once_it_has_ended() -> None:
    blocks = Blocks()
    begins, arguments, ends = call(0)
    assert list(blocks.of([begins, arguments])) == []
    assert [event["type"] for event in blocks.of([ends])] == [
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    ]


def test_a_call_is_streamed_as_it_comes() -> None:
    blocks = Blocks(streams=True)
    begins, _, ends = call(0)
    assert [event["type"] for event in blocks.of([begins])] == ["content_block_start"]
    for part in ('{"x"', ": 1}"):
        [event] = blocks.of([Arguments(0, part)])
        assert event["delta"] == {"type": "input_json_delta", "partial_json": part}
    assert [event["type"] for event in blocks.of([ends])] == ["content_block_stop"]
    assert blocks.content == [used(0)]


def test_a_streamed_call_that_is_cut_is_left_as_it_is() -> None:
    events, blocks = told([[Content("a"), *no_call(0, '<tool_call>{"x')]], streams=True)
    assert blocks.cut == "add"
    assert [event["type"] for event in events][-3:] == [
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    ]
    assert "<tool_call>" not in json.dumps(events)


def test_a_streamed_call_that_is_malformed_ends_the_answer() -> None:
    begun = [*call(0), *call(1)[:2], NoCall(1, "<tool_call>{x", "malformed")]
    with pytest.raises(EngineError, match="call of 'add' is none: it is malformed") as raised:
        told([begun], streams=True)
    assert raised.value.code == "engine.call"
    # In a whole answer it is text: nobody has been told yet.
    _, blocks = told([begun])
    assert blocks.content == [used(0), text("<tool_call>{x")]


def test_calls_after_the_first_are_left_out_where_one_is_asked_for() -> None:
    deltas = [*call(0), *call(1), *no_call(2, "<tool_call>")]
    for streams in (False, True):
        _, blocks = told([deltas], one_call=True, streams=streams)
        assert blocks.content == [used(0), text("<tool_call>")]


def test_a_thought_that_is_not_to_be_told_is_there_and_empty() -> None:
    events, blocks = told([[Reasoning("Why?"), Content("Hi")]], shows_thoughts=False)
    assert blocks.content == [thought(""), text("Hi")]
    assert folded([START, *events])["content"] == blocks.content


def test_arguments_are_numbers_that_json_has() -> None:
    arguments = '{"x": [1e999, -1e999, 1.5]}'
    _, blocks = told([call(0, arguments)])
    [block] = blocks.content
    assert json.loads(json.dumps(block["input"], allow_nan=False))["x"][2] == 1.5


SAID = st.text(st.sampled_from("ab \n\tß"), max_size=6)
PARTS = st.one_of(
    SAID.map(lambda said: ("said", said)),
    SAID.map(lambda said: ("thought", said)),
    st.dictionaries(SAID, st.one_of(st.integers(), SAID), max_size=3).map(
        lambda value: ("call", json.dumps(value))
    ),
    SAID.map(lambda said: ("none", f"<tool_call>{said}")),
    SAID.map(lambda said: ("mark", f"<tool{said}")),
)


def deltas_of(parts: Sequence[tuple[str, str]]) -> list[Delta]:
    found: list[Delta] = []
    for index, (kind, said) in enumerate(parts):
        match kind:
            case "said":
                found.append(Content(said))
            case "thought":
                found.append(Reasoning(said))
            case "call":
                found += call(index, said)
            case "none":
                found += no_call(index, said)
            case "mark":
                found += no_call(None, said)
    return found


@st.composite
def cut(draw: st.DrawFn, deltas: Sequence[Delta]) -> list[list[Delta]]:
    """The same deltas in other pieces: texts are cut, and steps end, anywhere."""
    pieces: list[list[Delta]] = [[]]
    for delta in deltas:
        parts: list[Delta] = [delta]
        if isinstance(delta, Content | Reasoning | Arguments):
            at = sorted(draw(st.sets(st.integers(0, len(delta.text)), max_size=3)))
            texts = [delta.text[a:b] for a, b in pairwise([0, *at, len(delta.text)])]
            match delta:
                case Arguments(index):
                    parts = [Arguments(index, one) for one in texts]
                case Content() | Reasoning():
                    parts = [type(delta)(one) for one in texts]
        for part in parts:
            pieces[-1].append(part)
            if draw(st.booleans()):
                pieces.append([])
    return pieces


@given(st.data(), st.lists(PARTS, max_size=6), st.booleans(), st.booleans())
def test_however_an_answer_is_cut_its_events_add_up_to_the_message(
    data: st.DataObject, parts: list[tuple[str, str]], one_call: bool, shows: bool
) -> None:
    deltas = deltas_of(parts)
    how = {"one_call": one_call, "shows_thoughts": shows}
    whole_calls = all(kind != "none" for kind, _ in parts)
    if whole_calls:  # else a stream has told what a whole answer leaves out
        streamed, blocks = told(data.draw(cut(deltas)), **how, streams=True)
        assert folded([START, *streamed])["content"] == blocks.content
        assert blocks.content == told([deltas], **how)[1].content
    _, whole = told([deltas], **how)
    events, blocks = told(data.draw(cut(deltas)), **how)
    assert blocks.content == whole.content
    assert folded([START, *events])["content"] == whole.content


@given(st.data(), st.lists(PARTS, max_size=6), st.booleans())
def test_every_block_starts_once_and_stops_before_the_next(
    data: st.DataObject, parts: list[tuple[str, str]], streams: bool
) -> None:
    events, blocks = told(data.draw(cut(deltas_of(parts))), streams=streams)
    open_block, stopped = None, 0
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert open_block is None
                assert event["index"] == stopped
                open_block = event["index"]
            case "content_block_delta":
                assert event["index"] == open_block
            case "content_block_stop":
                assert event["index"] == open_block
                open_block, stopped = None, stopped + 1
    assert open_block is None
    assert stopped == len(blocks.content)


@given(st.lists(PARTS, max_size=6))
def test_no_word_is_lost(parts: list[tuple[str, str]]) -> None:
    _, blocks = told([deltas_of(parts)])

    def words(said: str) -> str:
        return "".join(said.split())

    said = "".join(one["text"] for one in blocks.content if one["type"] == "text")
    thoughts = "".join(one["thinking"] for one in blocks.content if one["type"] == "thinking")
    assert words(said) == words("".join(t for k, t in parts if k in ("said", "none", "mark")))
    assert words(thoughts) == words("".join(t for k, t in parts if k == "thought"))
    inputs = [json.dumps(one["input"]) for one in blocks.content if one["type"] == "tool_use"]
    assert inputs == [arguments for kind, arguments in parts if kind == "call"]
