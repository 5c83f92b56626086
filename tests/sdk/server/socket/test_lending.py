"""Messages between a tab and the server as docs/tabs.md has them; anything else is refused."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, NoCall, Reasoning
from edgewise.hosting import tab, tabs
from edgewise.hosting.base import Ask, Call, Ended
from edgewise.hosting.tab import Lent
from edgewise.server.socket import connection, lending
from edgewise.server.socket.lending import (
    Alive,
    Beat,
    Begin,
    Halt,
    Lend,
    TabEnded,
    TabFailed,
    TabSaid,
    Unlend,
    Welcome,
)
from edgewise.server.socket.protocol import MessageError, read, write
from edgewise_runtime.engine.completion import Usage

PAGE = (Path(__file__).parents[4] / "docs/tabs.md").read_text("utf-8")
EXAMPLES: list[dict[str, Any]] = [
    json.loads(found)
    for found in re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
]
OF_TABS = [one for one in EXAMPLES if one["type"] in lending.TAB_READERS]
DIGESTS = [value for value in OF_TABS[0].values() if isinstance(value, str) and len(value) == 64]
TIMINGS = {
    "ttft_s": 0.04,
    "prefill_s": 0.03,
    "decode_s": 0.21,
    "prefill_tokens_per_s": 433.3,
    "decode_tokens_per_s": 104.8,
}


def example(kind: str) -> dict[str, Any]:
    return deepcopy(next(one for one in EXAMPLES if one["type"] == kind))


def test_every_example_of_a_tab_is_read_as_what_it_is() -> None:
    *others, failed, alive, unlend = [read(json.dumps(one)) for one in OF_TABS]
    bundle, tokenizer = DIGESTS
    lent = Lent("demo-q4", bundle, tokenizer, "webgpu-f32-serial", "SwiftShader", 512, 4)
    ended = Ended(
        0, " there was", "", (), (311, 402, 3), "stop", Usage(13, 3), TIMINGS, 7, stop=None
    )
    assert others == [
        Lend(lent),
        TabSaid("r1", (Content(" there was"),)),
        TabEnded("r1", ended),
    ]
    assert isinstance(failed, TabFailed)
    assert (failed.run, failed.error.code) == ("r1", "input.context")
    assert [alive, unlend] == [Alive(17), Unlend()]


def test_every_example_of_the_server_is_what_it_writes() -> None:
    ask = Ask(
        messages=[{"role": "user", "content": "Hello"}], options={"max_tokens": 40, "seed": 7}
    )
    written = [Welcome("t3", 5), Begin("r1", ask), Halt("r1"), Beat(17)]
    assert [json.loads(write(one)) for one in written] == [
        one for one in EXAMPLES if one not in OF_TABS
    ]


def test_the_page_has_every_message_and_the_bounds_of_the_code() -> None:
    assert {one["type"] for one in OF_TABS} == lending.TAB_READERS.keys()
    for said in (
        f"{tabs.MAX_WAITING} requests wait already, or {tabs.MAX_TABS} tabs",
        f"(up to {tabs.MAX_SLOTS})",
        f"({connection.TAB_LOST}, with",
    ):
        assert said in PAGE
    assert tabs.UNANSWERED == 2
    assert tab.TRIES == 2


def test_all_deltas_and_calls_are_read() -> None:
    said = example("said")
    said["deltas"] = [
        {"type": "reasoning", "text": "Hm."},
        {"type": "call_begins", "index": 0, "id": "a", "name": "add"},
        {"type": "arguments", "index": 0, "text": "{}"},
        {"type": "call_ends", "index": 0},
        {"type": "no_call", "index": None, "text": "<tool", "why": "cut"},
        {"type": "content", "text": ""},
    ]
    assert read(json.dumps(said)) == TabSaid(
        "r1",
        (
            Reasoning("Hm."),
            CallBegins(0, "a", "add"),
            Arguments(0, "{}"),
            CallEnds(0),
            NoCall(None, "<tool", "cut"),
            Content(""),
        ),
    )
    ended = example("ended")
    ended["choice"]["calls"] = [{"id": "a", "name": "add", "arguments": "{}"}]
    message = read(json.dumps(ended))
    assert isinstance(message, TabEnded)
    assert message.ended.calls == (Call("a", "add", "{}"),)


WRONG: list[tuple[str, str, Any]] = [
    ("lend", "bundle", "8f43"),
    ("lend", "tokenizer", "Z" * 64),
    ("lend", "context", 1 << 40),
    ("lend", "slots", 0),
    ("lend", "slots", tabs.MAX_SLOTS + 1),
    ("lend", "model", "m" * 300),
    ("lend", "speed", 9),
    ("said", "run", "../r1"),
    ("said", "deltas", [{"type": "shout", "text": "!"}]),
    ("said", "deltas", [{"type": "content", "text": 5}]),
    ("said", "deltas", [{"type": "content", "text": "", "loud": True}]),
    ("said", "deltas", [{"type": "call_ends", "index": -1}]),
    ("said", "deltas", [["content"]]),
    ("said", "deltas", [{"type": "content", "text": "."}] * (lending.MAX_DELTAS + 1)),
    ("failed", "code", "a b"),
    ("failed", "message", "m" * 5000),
    ("alive", "beat", 0),
    ("alive", "beat", True),
    ("unlend", "run", "r1"),
]


@pytest.mark.parametrize(("kind", "key", "value"), WRONG)
def test_what_no_tab_may_say_is_refused(kind: str, key: str, value: Any) -> None:
    with pytest.raises(MessageError):
        read(json.dumps(example(kind) | {key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reason", "error"),
        ("seed", 7),
        ("seed", "-7"),
        ("token_ids", [1 << 40]),
        ("token_ids", "123"),
        ("usage", {"prompt_tokens": -1, "completion_tokens": 3, "cached_tokens": 0}),
        ("usage", {"prompt_tokens": 1}),
        ("timings", {**TIMINGS, "ttft_s": -0.5}),
        ("timings", {**TIMINGS, "ttft_s": 1e300}),
        ("timings", {**TIMINGS, "ttft_s": "0"}),
        ("timings", {**TIMINGS, "lunch_s": 0.5}),
        ("calls", [{"id": "a", "name": "add"}]),
        ("text", None),
        ("index", 0),
    ],
)
def test_an_answer_that_none_can_be_is_refused(key: str, value: Any) -> None:
    ended = example("ended")
    ended["choice"][key] = value
    with pytest.raises(MessageError):
        read(json.dumps(ended))


@given(st.data())
def test_a_message_with_anything_in_it_is_read_or_refused(data: st.DataObject) -> None:
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    )
    message = deepcopy(data.draw(st.sampled_from(OF_TABS)))
    inside = data.draw(st.booleans()) and isinstance(message.get("choice"), dict)
    table = message["choice"] if inside else message
    table[data.draw(st.sampled_from(sorted(table)))] = data.draw(values)
    with suppress(MessageError):
        read(json.dumps(message))
