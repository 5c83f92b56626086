"""Traces: well-formed events whatever was recorded, and whatever of it had to go."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.engine.records import Phase, StepRecord
from edgewise_runtime.engine.trace import Trace
from edgewise_runtime.errors import InputError, StorageError

STEP = StepRecord(
    started_s=100.5,
    seconds=0.25,
    budget=64,
    prefill_tokens=40,
    decode_tokens=3,
    draft_tokens=0,
    burst=1,
    batch=4,
    waiting=2,
    pages_used=6,
    pages_total=8,
    kv_tokens=90,
)
Event = dict[str, Any]


def events(trace: Trace, *kinds: str) -> list[Event]:
    """The events of some kinds, in order."""
    return [event for event in trace.to_json()["traceEvents"] if event["ph"] in kinds]


def tracks(trace: Trace) -> dict[str, list[tuple[str, str]]]:
    """Begins and ends of each request by its id; asserts that they nest."""
    found = dict[str, list[tuple[str, str]]]()
    stacks = dict[str, list[str]]()
    for event in events(trace, "b", "e"):
        stack = stacks.setdefault(event["id"], [])
        found.setdefault(event["id"], []).append((event["ph"], event["name"]))
        if event["ph"] == "b":
            stack.append(event["name"])
        else:
            assert stack.pop() == event["name"]
    return found


def test_a_step_is_an_event_of_its_length_with_its_counts() -> None:
    trace = Trace()
    trace.add_step(STEP)
    [event] = events(trace, "X")
    assert (event["ts"], event["dur"], event["name"]) == (0.0, 250_000.0, "prefill+decode")
    assert event["args"] == {
        "budget": 64,
        "tokens": 43,
        "prefill_tokens": 40,
        "decode_tokens": 3,
        "draft_tokens": 0,
        "burst": 1,
        "batch": 4,
        "pages_used": 6,
        "kv_tokens": 90,
    }
    counters = {event["name"]: (event["ts"], event["args"]) for event in events(trace, "C")}
    assert counters == {
        "tokens": (250_000.0, {"prefill": 40, "decode": 3, "draft": 0}),
        "sequences": (250_000.0, {"running": 4, "waiting": 2}),
        "kv pages": (250_000.0, {"used": 6, "total": 8}),
    }


@pytest.mark.parametrize(
    ("prefill", "decode", "draft", "name"),
    [
        (5, 0, 0, "prefill"),
        (0, 5, 0, "decode"),
        (0, 5, 2, "verify"),
        (5, 5, 2, "prefill+verify"),
        (0, 0, 0, "step"),
    ],
)
def test_a_step_is_named_by_what_it_did(prefill: int, decode: int, draft: int, name: str) -> None:
    trace = Trace()
    trace.add_step(replace(STEP, prefill_tokens=prefill, decode_tokens=decode, draft_tokens=draft))
    assert events(trace, "X")[0]["name"] == name


def test_a_request_is_a_track_with_its_phases() -> None:
    trace = Trace()
    metrics = Metrics(trace)
    request = metrics.on_queued(10, at_s=2.0)
    metrics.on_started(request, 3.0)
    metrics.on_tokens(request, 1, 4.0)
    metrics.on_tokens(request, 1, 5.0)
    metrics.on_preempted(request, 6.0)
    metrics.on_started(request, 7.0)
    metrics.on_tokens(request, 1, 8.0)
    took = metrics.on_finished(request, "stop", 9.0)
    seen = [(e["ph"], e["name"], e["ts"] / 1e6) for e in events(trace, "b", "e")]
    assert seen == [
        ("b", "request 0", 0.0),
        ("b", "queued", 0.0),
        ("e", "queued", 1.0),
        ("b", "prefill", 1.0),
        ("e", "prefill", 2.0),
        ("b", "decode", 2.0),
        ("e", "decode", 4.0),
        ("b", "preempted", 4.0),
        ("e", "preempted", 5.0),
        ("b", "prefill", 5.0),
        ("e", "prefill", 6.0),
        ("b", "decode", 6.0),
        ("e", "decode", 7.0),
        ("e", "request 0", 7.0),
    ]
    assert events(trace, "b")[0]["args"] == took.to_json()


def test_what_goes_on_has_begun_and_not_ended() -> None:
    trace = Trace()
    trace.enter(7, "queued", 1.0)
    trace.enter(7, "prefill", 2.0)
    assert tracks(trace) == {
        "7": [("b", "request 7"), ("b", "queued"), ("e", "queued"), ("b", "prefill")]
    }


def test_a_trace_may_start_amid_the_work_and_stop_there() -> None:
    trace, metrics = Trace(), Metrics()
    early, late = metrics.on_queued(10, at_s=1.0), metrics.on_queued(10, at_s=1.0)
    metrics.trace = trace
    metrics.on_started(early, 2.0)
    metrics.on_finished(early, "cancelled", 3.0)
    metrics.on_finished(late, "cancelled", 3.0)
    metrics.on_step(STEP)
    metrics.trace = None
    metrics.on_step(STEP)
    assert tracks(trace) == {
        "0": [("b", "request 0"), ("b", "prefill"), ("e", "prefill"), ("e", "request 0")]
    }
    assert len(events(trace, "X")) == 1


def test_the_oldest_go_where_there_is_no_room() -> None:
    trace = Trace(3)
    for i in range(5):
        trace.add_step(replace(STEP, started_s=100.0 + i))
    assert [event["ts"] for event in events(trace, "X")] == [0.0, 1e6, 2e6]
    assert trace.dropped == trace.to_json()["otherData"]["dropped"] == 2


moments = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["queued", "prefill", "decode", "preempted", None]),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(moments, st.integers(1, 12))
def test_events_nest_and_are_in_order_whatever_was_dropped(
    entered: list[tuple[int, Phase | None, int]], most: int
) -> None:
    trace, at, last = Trace(most), 50.0, dict[int, Phase | None]()
    for request, phase, pause in entered:
        if request in last and last[request] is None:
            continue  # It has ended, and its number is nobody else's.
        last[request] = phase
        at += pause / 8
        trace.enter(request, phase, at)
        trace.add_step(replace(STEP, started_s=at, seconds=0.0))
    tracks(trace)
    times = [event["ts"] for event in events(trace, "b", "e", "C", "X")]
    assert times == sorted(times)
    assert min(times, default=0.0) == 0.0
    begun = {event["id"] for event in events(trace, "b")}
    assert begun >= {str(request) for request, phase in last.items() if phase}


@given(st.lists(st.floats(1e-6, 1e-3), min_size=2, max_size=30), st.floats(0, 1e7))
def test_steps_that_follow_each_other_never_overlap(pauses: list[float], start: float) -> None:
    trace, at = Trace(), start
    for pause in pauses:
        trace.add_step(replace(STEP, started_s=at, seconds=(at + pause) - at + 1e-9))
        at += pause
    for first, second in pairwise(events(trace, "X")):
        assert first["dur"] >= 0
        assert round(first["ts"] + first["dur"], 3) <= second["ts"]


def test_the_file_is_the_format_of_chrome(tmp_path: Path) -> None:
    trace = Trace()
    trace.add_step(STEP)
    trace.enter(0, "queued", 100.0)
    trace.write(tmp_path / "trace.json")
    read = json.loads((tmp_path / "trace.json").read_text())
    assert read == trace.to_json()
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    for event in read["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        assert event["ph"] == "M" or (event["ts"] >= 0 and event["cat"])
    names = {e["name"]: e["args"]["name"] for e in read["traceEvents"] if e["ph"] == "M"}
    assert names == {"process_name": "edgewise", "thread_name": "engine"}


def test_an_empty_trace_is_one_too() -> None:
    assert [event["ph"] for event in Trace().to_json()["traceEvents"]] == ["M", "M"]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as raised:
        Trace().write(tmp_path / "nowhere" / "trace.json")
    assert raised.value.code == "storage.missing"


@pytest.mark.parametrize("most", [0, -1])
def test_a_trace_must_keep_something(most: int) -> None:
    with pytest.raises(InputError, match=str(most)) as raised:
        Trace(most)
    assert raised.value.code == "input.trace"
