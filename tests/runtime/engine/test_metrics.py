"""Metrics: what is reported of steps and requests, counted exactly, whoever reads or writes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.engine.completion import FinishReason
from edgewise_runtime.engine.histogram import steps_1_2_5
from edgewise_runtime.engine.metrics import FAMILIES, Metrics
from edgewise_runtime.engine.records import CachedTokens, RequestRecord, StepRecord

STEP = StepRecord(
    started_s=10.0,
    seconds=0.25,
    budget=64,
    prefill_tokens=40,
    decode_tokens=3,
    draft_tokens=5,
    burst=1,
    batch=4,
    waiting=2,
    pages_used=6,
    pages_total=8,
    kv_tokens=90,
)


def totals(snapshot: dict[str, Any], name: str) -> tuple[int, float]:
    """How many values a histogram has counted, and their sum."""
    return snapshot[name]["count"], snapshot[name]["sum"]


def waiting_and_running(metrics: Metrics) -> tuple[int, int]:
    snapshot = metrics.snapshot()
    return snapshot["num_requests_waiting"], snapshot["num_requests_running"]


def test_a_request_takes_what_passed_between_its_events() -> None:
    metrics = Metrics()
    request = metrics.on_queued(100, at_s=1.0)
    metrics.on_started(request, 1.5, CachedTokens(device=16, memory=32, disk=16))
    metrics.on_tokens(request, 1, 3.5)
    metrics.on_tokens(request, 1, 4.0)
    metrics.on_drafted(request, proposed=3, accepted=1)
    metrics.on_tokens(request, 2, 6.0)
    metrics.on_tokens(request, 1, 6.25)
    took = metrics.on_finished(request, "length", 6.5)
    assert took.to_json() == {
        "queue_s": 0.5,
        "ttft_s": 2.5,
        "itl_median_s": 0.75,  # of 0.5, 1, 1 and 0.25
        "itl_max_s": 2.0,
        "prefill_s": 2.0,
        "decode_s": 2.75,
        "prompt_tokens": 100,
        "cached_tokens": 64,
        "completion_tokens": 5,
        "preemptions": 0,
        "draft_proposed": 3,
        "draft_accepted": 1,
    }
    snapshot = metrics.snapshot()
    assert totals(snapshot, "request_queue_time_seconds") == (1, 0.5)
    assert totals(snapshot, "time_to_first_token_seconds") == (1, 2.5)
    assert totals(snapshot, "inter_token_latency_seconds") == (4, 2.75)
    assert totals(snapshot, "request_prefill_time_seconds") == (1, 2.0)
    assert totals(snapshot, "request_decode_time_seconds") == (1, 2.75)
    assert totals(snapshot, "e2e_request_latency_seconds") == (1, 5.5)
    assert snapshot["prompt_tokens_total"] == 100
    assert snapshot["generation_tokens_total"] == 5
    assert snapshot["prefix_cache_queries_total"] == 100
    assert snapshot["prefix_cache_hits_total"] == {
        "device": 16,
        "memory": 32,
        "disk": 16,
        "bundle": 0,
    }
    assert snapshot["spec_decode_num_draft_tokens_total"] == 3
    assert snapshot["spec_decode_num_accepted_tokens_total"] == 1
    ended = snapshot["request_success_total"]
    assert {reason: times for reason, times in ended.items() if times} == {"length": 1}


def test_a_preempted_request_begins_only_once() -> None:
    metrics = Metrics()
    request = metrics.on_queued(20, at_s=0.0)
    metrics.on_started(request, 1.0, CachedTokens(device=4))
    metrics.on_tokens(request, 1, 2.0)
    metrics.on_preempted(request, 3.0)
    assert waiting_and_running(metrics) == (1, 0)
    metrics.on_started(request, 7.0, CachedTokens(memory=16))
    assert waiting_and_running(metrics) == (0, 1)
    metrics.on_tokens(request, 1, 8.0)
    took = metrics.on_finished(request, "stop", 8.0)
    assert (took.queue_s, took.ttft_s, took.itl_max_s, took.decode_s) == (1.0, 2.0, 6.0, 6.0)
    assert (took.preemptions, took.cached_tokens) == (1, 4)
    snapshot = metrics.snapshot()
    assert snapshot["num_preemptions_total"] == 1
    assert snapshot["prompt_tokens_total"] == snapshot["prefix_cache_queries_total"] == 20
    assert snapshot["prefix_cache_hits_total"] == {"device": 4, "memory": 0, "disk": 0, "bundle": 0}
    assert totals(snapshot, "time_to_first_token_seconds") == (1, 2.0)


def test_a_request_cancelled_in_the_queue_has_only_waited() -> None:
    metrics = Metrics()
    request = metrics.on_queued(20, at_s=1.0)
    took = metrics.on_finished(request, "cancelled", 3.0)
    assert took.queue_s == 2.0
    assert took.ttft_s is took.itl_median_s is took.itl_max_s is took.prefill_s is None
    assert took.decode_s is None
    snapshot = metrics.snapshot()
    assert snapshot["request_success_total"]["cancelled"] == 1
    assert totals(snapshot, "e2e_request_latency_seconds") == (1, 2.0)
    assert totals(snapshot, "request_queue_time_seconds") == (0, 0.0)
    assert snapshot["prompt_tokens_total"] == 0


def test_tokens_that_come_with_the_first_one_count_no_wait() -> None:
    metrics = Metrics()
    request = metrics.on_queued(20, at_s=0.0)
    metrics.on_started(request, 1.0)
    metrics.on_tokens(request, 3, 2.0)
    took = metrics.on_finished(request, "stop", 2.0)
    assert (took.completion_tokens, took.itl_median_s, took.decode_s) == (3, None, 0.0)
    assert totals(metrics.snapshot(), "inter_token_latency_seconds") == (0, 0.0)


def test_no_tokens_are_no_event() -> None:
    metrics = Metrics()
    request = metrics.on_queued(20, at_s=0.0)
    metrics.on_started(request, 1.0)
    metrics.on_tokens(request, 0, 2.0)
    assert metrics.on_finished(request, "stop", 3.0).ttft_s is None


def test_an_end_reported_again_changes_nothing() -> None:
    metrics = Metrics()
    request = metrics.on_queued(20, at_s=0.0)
    first, before = metrics.on_finished(request, "stop", 1.0), metrics.snapshot()
    assert metrics.on_finished(request, "error", 9.0) == first
    assert metrics.snapshot() == before


def test_a_time_reported_late_counts_as_that_of_the_event_before() -> None:
    metrics = Metrics()
    request = metrics.on_queued(20, at_s=5.0)
    metrics.on_started(request, 4.0)
    metrics.on_tokens(request, 1, 6.0)
    metrics.on_tokens(request, 1, 5.5)
    took = metrics.on_finished(request, "stop", 5.0)
    assert (took.queue_s, took.prefill_s, took.decode_s, took.itl_max_s) == (0.0, 1.0, 0.0, 0.0)


def test_a_request_arrives_now_unless_said_otherwise() -> None:
    before = perf_counter()
    request = Metrics().on_queued(1)
    assert before <= request.queued_s <= perf_counter()


def test_a_step_counts_its_tokens_and_shows_its_pages() -> None:
    metrics = Metrics()
    metrics.on_step(STEP)
    metrics.on_step(replace(STEP, pages_used=2, kv_tokens=17, seconds=0.5))
    snapshot = metrics.snapshot()
    assert snapshot["steps_total"] == 2
    assert snapshot["prefill_tokens_total"] == 80
    assert snapshot["decode_tokens_total"] == 6
    assert totals(snapshot, "step_seconds") == (2, 0.75)
    assert totals(snapshot, "iteration_tokens_total") == (2, 96.0)
    assert totals(snapshot, "step_batch_size") == (2, 8.0)
    assert (snapshot["kv_pages"], snapshot["kv_pages_used"], snapshot["kv_tokens"]) == (8, 2, 17)
    assert snapshot["kv_cache_usage_perc"] == 0.25


def test_pages_are_counted_between_steps_too() -> None:
    metrics = Metrics()
    metrics.on_step(STEP)
    metrics.on_kv(used=0, total=8)
    metrics.on_pages_moved(spilled=3)
    metrics.on_pages_moved(spilled=1, restored=2)
    snapshot = metrics.snapshot()
    assert (snapshot["kv_pages_used"], snapshot["kv_tokens"]) == (0, 0)
    assert snapshot["kv_pages_spilled_total"] == 4
    assert snapshot["kv_pages_restored_total"] == 2


def test_a_fresh_snapshot_has_every_number() -> None:
    snapshot = Metrics().snapshot()
    assert list(snapshot) == list(FAMILIES)
    assert json.loads(json.dumps(snapshot, allow_nan=False)) == snapshot
    for name, family in FAMILIES.items():
        if family.kind == "histogram":
            assert snapshot[name]["count"] == 0
        else:
            assert snapshot[name] == (dict.fromkeys(family.values, 0) if family.label else 0)


def test_a_snapshot_stays_as_it_was() -> None:
    metrics = Metrics()
    before, again = metrics.snapshot(), metrics.snapshot()
    metrics.on_finished(metrics.on_queued(1, at_s=0.0), "stop", 1.0)
    metrics.on_step(STEP)
    assert before == again != metrics.snapshot()


@pytest.mark.parametrize("name", FAMILIES)
def test_names_are_what_prometheus_takes(name: str) -> None:
    family = FAMILIES[name]
    assert re.fullmatch("[a-z][a-z0-9_]*", name)
    assert family.help.endswith(".")
    assert "\n" not in family.help
    assert bool(family.bounds) == (family.kind == "histogram")
    assert bool(family.values) == bool(family.label)
    assert name.endswith("_total") or family.kind != "counter"


ACTIONS = ("queue", "start", "tokens", "preempt", "finish")


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5), st.integers(0, 4))))
def test_gauges_and_counts_agree_with_the_requests(actions: list[tuple[str, int, int]]) -> None:
    metrics, requests, took = Metrics(), list[RequestRecord](), {}
    for at, (action, which, amount) in enumerate(actions):
        if action == "queue":
            requests.append(metrics.on_queued(10 + amount, float(at)))
            continue
        if which >= len(requests):
            continue
        request = requests[which]
        running = request.phase in ("prefill", "decode")
        if action == "finish":
            took[which] = metrics.on_finished(request, "stop", float(at))
        elif action == "start" and request.phase in ("queued", "preempted"):
            metrics.on_started(request, float(at))
        elif action == "tokens" and running:
            metrics.on_tokens(request, amount, float(at))
        elif action == "preempt" and running:
            metrics.on_preempted(request, float(at))
    snapshot, phases = metrics.snapshot(), [request.phase for request in requests]
    assert snapshot["num_requests_waiting"] == phases.count("queued") + phases.count("preempted")
    assert snapshot["num_requests_running"] == phases.count("prefill") + phases.count("decode")
    assert snapshot["request_success_total"]["stop"] == len(took) == phases.count(None)
    assert snapshot["generation_tokens_total"] == sum(r.completion_tokens for r in requests)
    assert snapshot["num_preemptions_total"] == sum(r.preemptions for r in requests)
    first = sum(request.first_s is not None for request in requests)
    assert totals(snapshot, "time_to_first_token_seconds")[0] == first
    for request in took.values():
        assert request.queue_s >= 0
        if request.ttft_s is not None:
            assert request.prefill_s is not None
            assert request.ttft_s == request.queue_s + request.prefill_s


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Threads take turns as often as they can, so that a missing lock shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hurried_threads")
def test_threads_lose_nothing_and_readers_see_one_moment() -> None:
    metrics, done, torn = Metrics(), Event(), list[dict[str, Any]]()

    def serve() -> None:
        for at in range(150):
            request = metrics.on_queued(2, float(at))
            metrics.on_started(request, float(at), CachedTokens(device=1))
            metrics.on_tokens(request, 1, float(at))
            metrics.on_finished(request, "stop", float(at))

    def read() -> None:
        while not done.is_set():
            seen = metrics.snapshot()
            if (
                seen["prompt_tokens_total"] != 2 * seen["prefix_cache_hits_total"]["device"]
                or seen["generation_tokens_total"] != seen["time_to_first_token_seconds"]["count"]
            ):
                torn.append(seen)

    reader, writers = Thread(target=read), [Thread(target=serve) for _ in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert not torn
    snapshot = metrics.snapshot()
    assert snapshot["generation_tokens_total"] == snapshot["request_success_total"]["stop"] == 600
    assert snapshot["num_requests_waiting"] == snapshot["num_requests_running"] == 0


def test_whatever_a_completion_ends_with_is_counted() -> None:
    assert set(get_args(FinishReason)) <= set(FAMILIES["request_success_total"].values)


OURS_ALONE = {
    "kv_pages_dropped_total": "what a tab cannot keep is told as `pagesFailure`, in words",
    "prefix_cache_limit_bytes": "in a tab all pages that nobody needs are kept, until it is idle",
}
"""Of Python's engine, and why not of a tab's."""


def test_an_engine_of_a_tab_counts_by_the_same_names() -> None:
    table = (Path(__file__).parents[3] / "web/engine/metrics/families.ts").read_text("utf-8")
    family = re.compile(r"^  (\w+): (counter|labelled|gauge|histogram)\b(.*?),$", re.M)
    told = family.findall(_joined(table))
    kinds = {name: "counter" if kind == "labelled" else kind for name, kind, _ in told}
    ours = {name: family for name, family in FAMILIES.items() if name not in OURS_ALONE}
    assert kinds == {name: family.kind for name, family in ours.items()}
    bounds = {
        "SECONDS": steps_1_2_5(-4, 3),
        "TOKENS": tuple(float(1 << i) for i in range(15)),
        "ROWS": tuple(float(1 << i) for i in range(9)),
    }
    for name, kind, rest in told:
        if kind == "labelled":
            assert re.findall(r'"(\w+)"', rest) == [ours[name].label, *ours[name].values]
        if kind == "histogram":
            assert ours[name].bounds == bounds[rest.strip("()")]


def _joined(text: str) -> str:
    """Every call in a line of its own."""
    return re.sub(r"\(\s*([^()]*?),?\s*\)", lambda call: f"({' '.join(call[1].split())})", text)
