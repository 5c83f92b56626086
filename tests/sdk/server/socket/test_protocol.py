"""Messages as docs/protocol.md has them: a client's are read, ours are written to the letter."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, NoCall, Reasoning
from edgewise.hosting.base import Ask, Call, Ended, Said, TokenSaid
from edgewise.options import SubmitOptions
from edgewise.server.run import PING_SECONDS
from edgewise.server.socket import connection, generations, protocol, routes, tickets, transport
from edgewise.server.socket.protocol import (
    Accepted,
    Cancel,
    ClientMessage,
    Done,
    Failed,
    MessageError,
    Piece,
    Ping,
    Pong,
    Resume,
    ServerMessage,
    Start,
    read,
    write,
)
from edgewise_runtime.engine.completion import Usage
from edgewise_runtime.errors import EngineError, InputError

PAGE = (Path(__file__).parents[4] / "docs/protocol.md").read_text("utf-8")
EXAMPLES: list[dict[str, Any]] = [
    json.loads(found)
    for found in re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
]
SECRET = "hQ3dT0Jr5m1xN8vKfYcS2bWgLpZaE7uIoRtVnMyXwAk"
CALL = Call("t4Kx81LmQ", "add", '{"x": 3, "y": 4}')
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        },
    },
}
TIMINGS = {
    "ttft_s": 0.04,
    "prefill_s": 0.03,
    "decode_s": 0.21,
    "prefill_tokens_per_s": 433.3,
    "decode_tokens_per_s": 104.8,
}

CLIENT: list[ClientMessage] = [
    Start(
        "g1",
        "demo-q4",
        Ask(
            prompt="Once upon a time",
            options={"max_tokens": 40, "temperature": 0.7, "stop": ["\n"]},
        ),
    ),
    Start(
        "g2",
        "demo-q4",
        Ask(prompt=(1, 318, 44, 9), options={"logprobs": True, "top_logprobs": 2}),
    ),
    Start(
        "c1",
        "demo-q4",
        Ask(
            messages=[{"role": "user", "content": "What is 3 plus 4?"}],
            tools=[TOOL],
            variables={"enable_thinking": True},
            options={"tool_choice": "auto", "reasoning": "low", "seed": 7},
        ),
    ),
    Cancel("g1"),
    Resume("g1", SECRET, 16),
    Ping("14:03:22.118"),
]
SERVER: list[ServerMessage] = [
    Accepted("g1", SECRET),
    Piece("g1", 0, Said((Content(" there was"),), (311, 402))),
    Piece(
        "g2",
        3,
        Said(
            (Content(" a"),),
            (263,),
            (TokenSaid(263, " a", b" a", -0.25, ((" a", b" a", -0.25), ("é", b"\xc3\xa9", -3.5))),),
        ),
    ),
    Piece(
        "c1",
        5,
        Said(
            (
                Reasoning("I should add."),
                CallBegins(0, CALL.id, CALL.name),
                Arguments(0, CALL.arguments),
                CallEnds(0),
            ),
            (88, 90),
        ),
    ),
    Piece("c1", 6, Said((NoCall(1, '<tool_call>{"na', "cut"),), (2,))),
    Done(
        "c1",
        7,
        (Ended(0, "", "I should add.", (CALL,), (), "tool_calls", Usage(61, 23, 48), TIMINGS, 7),),
    ),
    Done("g1", 4, (), cancelled=True),
    Failed(
        InputError(
            "There is no model 'demo-q8'.", remedy="GET /v1/models lists them.", code="input.model"
        ),
        "g2",
        0,
    ),
    Failed(
        EngineError(
            "32 generations are open on this socket.",
            remedy="Wait for one of them to end.",
            code="engine.busy",
        ),
        "g9",
    ),
    Failed(
        InputError(
            "The message: unknown field 'speed'.",
            remedy="docs/protocol.md has every message with an example.",
            code="input.unknown_field",
        )
    ),
    Pong("14:03:22.118"),
]


def of_clients() -> list[dict[str, Any]]:
    return [one for one in EXAMPLES if one["type"] in protocol.CLIENT_TYPES]


def of_the_server() -> list[dict[str, Any]]:
    return [one for one in EXAMPLES if one["type"] not in protocol.CLIENT_TYPES]


def test_every_example_of_a_client_is_read_as_what_it_is() -> None:
    assert [read(json.dumps(one)) for one in of_clients()] == CLIENT


def test_every_example_of_the_server_is_what_it_writes() -> None:
    assert [json.loads(write(one)) for one in SERVER] == of_the_server()


def test_every_message_and_every_option_has_its_place_on_the_page() -> None:
    types = {one["type"] for one in EXAMPLES}
    assert types == {*protocol.CLIENT_TYPES, "accepted", "piece", "done", "error", "pong"}
    options = PAGE.partition("## Options")[2].partition(", as in Python")[0]
    assert set(re.findall(r"`(\w+)`", options)) == protocol.OPTIONS
    assert SubmitOptions.__annotations__.keys() >= protocol.OPTIONS


def test_the_bounds_on_the_page_are_those_of_the_code() -> None:
    limits, bounds = connection.Limits(), generations.Bounds()
    for said in (
        f"{protocol.MAX_MESSAGE >> 20} MiB, {protocol.MAX_VALUES:,} lists",
        f"generations open on a socket | {limits.open} |",
        f"ended ones that can be resumed included | {bounds.generations};",
        f"to read | {limits.pieces:,}, or {limits.bytes >> 20} MiB |",
        f"({bounds.pieces:,} pieces, {bounds.bytes >> 20} MiB;",
        f"its socket for {bounds.linger_s:g} seconds",
        f"tickets that wait to be used | {tickets.MOST} |",
        f"good once, for {tickets.SECONDS:g} seconds",
        f"may be ({routes.SOCKETS})",
        f"1008 | {connection.WRONG} messages in a row",
        f"{transport.MAX_FRAGMENTS:,} fragments; {transport.MAX_WAITING} messages at once",
        f"| {connection.STALLED.code} | ",
        f"takes nothing for {transport.STALL_SECONDS:g} seconds",
        f"every {PING_SECONDS:g} seconds, with {PING_SECONDS:g} for",
        f"up to {protocol.MAX_ECHO} characters",
    ):
        assert said in PAGE


def test_what_may_be_missing_is_as_if_it_were_empty() -> None:
    assert read('{"type": "ping"}') == Ping("")
    least = '{"type": "generate", "id": "a", "model": "m", "prompt": ""}'
    assert read(least) == Start("a", "m", Ask(prompt=""))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"id": ""}, "input.name"),
        ({"id": "a b"}, "input.name"),
        ({"id": "-a"}, "input.name"),
        ({"id": "é"}, "input.name"),
        ({"id": "a\n"}, "input.name"),
        ({"id": 7}, "input.type"),
        ({"id": "x" * 65}, "input.name"),
        ({"model": "x" * 257}, "input.type"),
        ({"model": None}, "input.type"),
        ({"prompt": None}, "input.type"),
        ({"prompt": {"text": "a"}}, "input.type"),
        ({"prompt": [1, -1]}, "input.range"),
        ({"prompt": [True]}, "input.range"),
        ({"prompt": [1.0]}, "input.range"),
        ({"prompt": [1 << 40]}, "input.range"),
        ({"prompt": "\ud800"}, "input.message"),
        ({"tools": {}}, "input.type"),
        ({"tools": ["add"]}, "input.type"),
        ({"tools": [{}] * 513}, "input.type"),
        ({"options": []}, "input.type"),
        ({"options": {"sampling": {}}}, "input.option"),
        ({"options": {"device": "cpu"}}, "input.option"),
        ({"messages": []}, "input.unknown_field"),
        ({"type": "chat"}, "input.missing"),
        ({"type": "GENERATE"}, "input.message"),
    ],
)
def test_what_is_not_as_the_page_has_it_is_refused(change: dict[str, Any], code: str) -> None:
    asked = {"type": "generate", "id": "a", "model": "m", "prompt": "Hi"}
    assert read(json.dumps(asked))
    with pytest.raises(MessageError) as error:
        read(json.dumps({**asked, **change}))
    assert error.value.code == code
    assert error.value.remedy
    known = "id" not in change
    # What cannot be parsed has no id; half a character is found once it is.
    assert error.value.id == ("a" if known else None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


def read_or_refused(text: str) -> ClientMessage | MessageError:
    try:
        return read(text)
    except MessageError as error:
        return error


@given(
    st.sampled_from(EXAMPLES),
    st.dictionaries(
        st.sampled_from("type id model prompt messages tools options after secret echo x".split()),
        VALUES | st.sampled_from(sorted(protocol.CLIENT_TYPES)),
        max_size=3,
    ),
    st.sets(st.sampled_from("type id model prompt messages options secret".split()), max_size=2),
)
def test_any_object_is_a_message_or_refused(
    example: dict[str, Any], changed: dict[str, Any], dropped: set[str]
) -> None:
    value = {key: one for key, one in {**example, **changed}.items() if key not in dropped}
    found = read_or_refused(json.dumps(value))
    if isinstance(found, MessageError):
        assert found.id is None or found.id == value["id"]
        assert len(write(Failed(found, found.id))) < 4000
    else:
        assert value["type"] in protocol.CLIENT_TYPES
        assert not isinstance(found, Start) or found.ask.options.keys() <= protocol.OPTIONS


@given(st.text() | st.text(alphabet='{}[]",:0\\u"type'))
def test_any_text_is_a_message_or_refused(text: str) -> None:
    found = read_or_refused(text)
    assert not isinstance(found, MessageError) or found.code.startswith("input.")


@given(
    st.lists(st.text(), max_size=3),
    st.lists(st.floats(max_value=0, allow_nan=False), max_size=3),
)
def test_whatever_a_model_writes_is_ascii_json(texts: list[str], logprobs: list[float]) -> None:
    deltas = tuple(map(Content, [*texts, "\ud800", "\u2028"]))
    tokens = tuple(TokenSaid(1, "\ufffd", b"\xff", one) for one in [*logprobs, -math.inf])
    written = write(Piece("a", 0, Said(deltas, (1,), tokens)))
    assert written.isascii()
    assert "\n" not in written
    found = json.loads(written)
    assert [one["text"] for one in found["deltas"]] == [one.text for one in deltas]
    assert all(math.isfinite(one["logprob"]) for one in found["tokens"])
