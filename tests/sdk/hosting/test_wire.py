"""Frames between processes: what is sent arrives, and what is no frame is refused."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, NoCall, Reasoning
from edgewise.hosting.base import Call, Ended, Facts, Said, TokenSaid
from edgewise.hosting.wire import (
    MAX_FRAME,
    TOGETHER,
    decoded,
    decoded_error,
    encoded,
    encoded_error,
    frame,
    frames,
    lists_of,
    read_frame,
    text,
)
from edgewise_runtime import errors
from edgewise_runtime.engine.completion import Usage
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
COUNT = st.integers(0, 2**64 - 1)
SECONDS = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | COUNT | SECONDS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=3).map(tuple)


DELTA = st.one_of(
    st.builds(Content, TEXT),
    st.builds(Reasoning, TEXT),
    st.builds(CallBegins, COUNT, TEXT, TEXT),
    st.builds(Arguments, COUNT, TEXT),
    st.builds(CallEnds, COUNT),
    st.builds(NoCall, st.none() | COUNT, TEXT, TEXT),
)
LOGPROB = st.floats(max_value=0, allow_nan=False)
TOKEN = st.builds(
    TokenSaid,
    COUNT,
    TEXT,
    st.binary(max_size=8),
    LOGPROB,
    tuples(st.tuples(TEXT, st.binary(max_size=8), LOGPROB)),
)
SAID = st.builds(Said, tuples(DELTA), tuples(COUNT), tuples(TOKEN), COUNT)
ENDED = st.builds(
    Ended,
    index=COUNT,
    text=TEXT,
    reasoning=TEXT,
    calls=tuples(st.builds(Call, TEXT, TEXT, TEXT)),
    token_ids=tuples(COUNT),
    finish_reason=TEXT,
    usage=st.builds(Usage, COUNT, COUNT, COUNT),
    timings=st.dictionaries(TEXT, SECONDS, max_size=3),
    seed=COUNT,
    stop=st.none() | TEXT,
    tokens=tuples(TOKEN),
)
FACTS = st.builds(
    Facts,
    name=TEXT,
    family=TEXT,
    parameters=COUNT,
    quant=TEXT,
    bytes=COUNT,
    context=COUNT,
    vocab=COUNT,
    program=TEXT,
    device=TEXT,
    template=TEXT,
    capabilities=tuples(TEXT),
    defaults=st.dictionaries(TEXT, JSON, max_size=3),
    end_tokens=tuples(TEXT),
)


def read(*data: bytes) -> list[Any]:
    """The frames of a stream, up to its end."""

    async def all_of_it() -> list[Any]:
        reader = asyncio.StreamReader()
        for part in data:
            reader.feed_data(part)
        reader.feed_eof()
        found = []
        while (value := await read_frame(reader)) is not None:
            found.append(value)
        return found

    return asyncio.run(all_of_it())


@given(SAID | ENDED | FACTS)
def test_what_is_said_arrives_as_it_was(said: Said | Ended | Facts) -> None:
    ((value,),) = read(frame(said))
    assert decoded(type(said), value) == said


@given(st.lists(st.lists(JSON, max_size=3), max_size=4))
def test_frames_come_one_after_the_other(values: list[list[Any]]) -> None:
    assert read(*(frame(*value) for value in values)) == values


@given(st.lists(st.lists(JSON, max_size=3).map(lambda values: ["said", *values]), max_size=6))
def test_lists_that_share_a_frame_are_those_of_frames_of_their_own(values: list[list[Any]]) -> None:
    found = read(frames([text(*value) for value in values]))
    assert len(found) == min(len(values), 1)
    assert [one for several in found for one in lists_of(several)] == values


@pytest.mark.parametrize("sizes", [(1, TOGETHER, 1), (TOGETHER - 99, 200, 5), (TOGETHER,) * 3])
def test_no_frame_of_several_lists_is_long(sizes: tuple[int, ...]) -> None:
    values = [["said", "x" * size] for size in sizes]
    found = read(frames([text(*value) for value in values]))
    assert [one for several in found for one in lists_of(several)] == values
    for several in found:
        assert len(lists_of(several)) == 1 or len(text(*several)) <= TOGETHER + 16


@pytest.mark.parametrize("name", [kind.__name__ for kind in EdgewiseError.__subclasses__()])
def test_an_error_is_raised_as_the_same_class(name: str) -> None:
    kind: type[EdgewiseError] = getattr(errors, name)
    ((value,),) = read(frame(encoded_error(kind("What.", remedy="Do.", code="a.b"))))
    found = decoded_error(value)
    assert type(found) is kind
    assert (found.message, found.remedy, found.code) == ("What.", "Do.", "a.b")


def test_what_is_no_error_of_ours_is_told_as_one() -> None:
    class FriendlyError(InputError):
        """Ours, but not by its name."""

    assert type(decoded_error(encoded_error(FriendlyError("x")))) is InputError
    found = decoded_error(encoded_error(KeyError("x")))
    assert (type(found), found.code) == (EngineError, "internal")
    for value in (None, [], ["InputError"], ["InputError", 1, 2, 3]):
        assert decoded_error(value).code == "engine.wire"
    assert type(decoded_error(["object", "a", "b", "c"])) is EdgewiseError


def test_numbers_that_json_does_not_have_arrive() -> None:
    said = Said((), (1,), (TokenSaid(1, "a", b"a", -inf),))
    assert decoded(Said, read(frame(said))[0][0]) == said


def code_of(act: Callable[[], object]) -> str | None:
    """What it is refused with."""
    try:
        act()
    except EngineError as error:
        return error.code
    return None


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({1, 2}, "input.json"),
        (object(), "input.json"),
        ({True: 1}, "input.json"),
        ({1: 1, "1": 2}, "input.json"),
        (deep(60), "input.json"),
        (deep(5000), "input.json"),
        ("," * (2 << 20), "input.size"),
        ("x" * MAX_FRAME, "input.size"),
    ],
    ids=["set", "object", "bool", "twice", "deep", "deeper", "commas", "long"],
)
def test_what_would_not_be_read_is_not_sent(value: Any, code: str) -> None:
    with pytest.raises(InputError) as caught:
        frame(value)
    assert caught.value.code == code


def framed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack(">I", MAX_FRAME + 1), "engine.size"),
        (b"\xff\xff\xff\xff", "engine.size"),
        (framed(b""), "engine.wire"),
        (framed(b"{"), "engine.wire"),
        (framed(b"\xff"), "engine.wire"),
        (framed(b"[" * 100_000), "engine.wire"),
        (framed(b"[" * 1000 + b"]" * 1000), "engine.wire"),
        (framed(b"[" + b"0," * (2 << 20) + b"0]"), "engine.size"),
        (framed(b"9" * 5000), "engine.wire"),
        (framed(b"null"), "engine.wire"),
        (framed(b'"text"'), "engine.wire"),
        (framed(b'{"a":1,"a":2}'), "engine.wire"),
    ],
    ids=[
        "long",
        "longest",
        "empty",
        "cut",
        "utf-8",
        "deep",
        "deep2",
        "many",
        "digits",
        "null",
        "text",
        "twice",
    ],
)
def test_what_is_no_frame_is_refused_before_room_is_made_for_it(data: bytes, code: str) -> None:
    with pytest.raises(EngineError) as caught:
        read(data)
    assert caught.value.code == code


@given(st.binary(max_size=64))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    for stream in (data, framed(data)):
        assert code_of(lambda stream=stream: read(stream)) in (None, "engine.wire", "engine.size")


@pytest.mark.parametrize("kept", range(1, 8))
def test_a_stream_that_ends_within_a_frame_ends(kept: int) -> None:
    assert read(frame(1), frame("four")[:kept]) == [[1]]


@given(JSON)
def test_any_json_is_what_is_asked_for_or_refused(value: Any) -> None:
    for kind in (Said, Ended, Facts):
        for shown in (value, [kind.__name__, value], [kind.__name__, *([value] * 4)]):
            code = code_of(lambda kind=kind, shown=shown: decoded(kind, shown))
            assert code in (None, "engine.wire")


@pytest.mark.parametrize(
    "wrong",
    [
        ["Said", [], [True], [], 0],
        ["Said", [], [1.0], [], 0],
        ["Said", [["CallEnds", "0"]], [], [], 0],
        ["Said", [["Usage", 1, 1, 1]], [], [], 0],
        ["Said", [], [], [["TokenSaid", 1, "a", "\u0100", 0.0, []]], 0],
        ["Said", [], [], [["TokenSaid", 1, "a", "a", 10**400, []]], 0],
        ["Said", [], [], [["TokenSaid", 1, "a", "a", 0.0, [["a", "a"]]]], 0],
        ["Said", [], [], [], 0, 0],
        ["Ended", [], [], [], 0],
        {"deltas": []},
    ],
)
def test_values_of_another_kind_are_refused(wrong: Any) -> None:
    with pytest.raises(EngineError) as caught:
        decoded(Said, wrong)
    assert caught.value.code == "engine.wire"


def test_bytes_and_dataclasses_are_lists_and_text() -> None:
    assert encoded(TokenSaid(1, "é", "é".encode(), -0.5)) == ["TokenSaid", 1, "é", "Ã©", -0.5, []]
