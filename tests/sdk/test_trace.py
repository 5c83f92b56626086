"""Traces and metrics of an engine at work."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise_runtime.errors import InputError, StorageError

PROMPTS = ["The quick brown fox " * 9, "A model", "1 2 3 " * 20, "Zürich"] * 3


def events(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())["traceEvents"]
    return found


@pytest.mark.parametrize("budget", [8, 24, None])
def test_no_step_exceeds_its_budget(bundle: Path, tmp_path: Path, budget: int | None) -> None:
    file = tmp_path / "trace.json"
    settings = Settings(step_tokens=budget, draft="lookup")
    with Engine(bundle, settings=settings) as engine, engine.trace(file):
        found = engine.generate(PROMPTS, max_tokens=20, temperature=0, ignore_eos=True)
    steps = [event for event in events(file) if event["ph"] == "X"]
    most = budget or engine.model.prefill_chunk
    assert steps
    for step in steps:
        args = step["args"]
        assert args["budget"] == most
        assert 0 < args["tokens"] <= most
        assert args["tokens"] == sum(args[f"{k}_tokens"] for k in ("prefill", "decode", "draft"))
        assert 0 < args["batch"] <= engine.model.max_batch
    assert sum(step["args"]["prefill_tokens"] for step in steps) == sum(
        c.usage.prompt_tokens - c.usage.cached_tokens for c in found
    )


def test_budgets_change_no_answer(bundle: Path, engine: Engine) -> None:
    options: dict[str, Any] = {"max_tokens": 20, "seed": 3, "ignore_eos": True}
    with Engine(bundle, settings=Settings(step_tokens=11)) as small:
        found = small.generate(PROMPTS, **options)
    expected = engine.generate(PROMPTS, **options)
    assert [c.token_ids for c in found] == [c.token_ids for c in expected]


def test_a_trace_is_one_that_viewers_can_read(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with engine.trace(file):
        engine.generate(PROMPTS[:3], max_tokens=5)
    found = events(file)
    assert {event["ph"] for event in found} == {"M", "X", "C", "b", "e"}
    for event in found:
        assert isinstance(event["name"], str)
        assert event["ph"] == "M" or event["ts"] >= 0
        assert event["ph"] != "X" or event["dur"] >= 0
    # Steps of one thread follow each other.
    steps = [event for event in found if event["ph"] == "X"]
    for one, following in pairwise(steps):
        assert one["ts"] + one["dur"] <= following["ts"] + 1e-3
    # What begins ends, inside what it is part of.
    opened: dict[str, list[str]] = {}
    for event in found:
        if event["ph"] == "b":
            opened.setdefault(event["id"], []).append(event["name"])
        elif event["ph"] == "e":
            assert opened[event["id"]].pop() == event["name"]
    assert len(opened) == 3
    assert not any(opened.values())


def test_only_what_happens_in_the_block_is_recorded(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with engine.trace(file) as recorded:
        pass
    engine.generate("A model", max_tokens=2)
    assert recorded.dropped == 0
    assert [event for event in events(file) if event["ph"] != "M"] == []


def test_a_trace_is_written_where_its_block_fails(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with pytest.raises(InputError), engine.trace(file):
        engine.generate("")
    assert file.exists()


def test_one_trace_at_a_time(engine: Engine, tmp_path: Path) -> None:
    with engine.trace(tmp_path / "one"):
        with pytest.raises(InputError) as caught, engine.trace(tmp_path / "two"):
            pass
        assert caught.value.code == "input.trace"
        engine.generate("A model", max_tokens=2)
    assert not (tmp_path / "two").exists()
    assert any(event["ph"] == "X" for event in events(tmp_path / "one"))
    with engine.trace(tmp_path / "two"):
        pass
    assert (tmp_path / "two").exists()


def test_a_trace_that_cannot_be_written_is_refused_before_anything_runs(
    engine: Engine, tmp_path: Path
) -> None:
    ran = []
    with pytest.raises(StorageError) as caught, engine.trace(tmp_path / "none" / "trace.json"):
        ran.append(1)
    assert (caught.value.code, ran) == ("storage.missing", [])


def test_metrics_count_what_was_done(bundle: Path) -> None:
    with Engine(bundle) as engine:
        found = engine.generate(PROMPTS[:4], max_tokens=9, temperature=0, ignore_eos=True)
        engine.submit("A model", max_tokens=240, ignore_eos=True).close()
        said = engine.metrics()
    json.dumps(said, allow_nan=False)
    assert said["request_success_total"]["length"] == 4
    assert sum(said["request_success_total"].values()) == 5
    assert said["generation_tokens_total"] >= 36
    assert said["time_to_first_token_seconds"]["count"] >= 4
    assert said["num_requests_running"] == said["num_requests_waiting"] == 0
    assert said["kv_pages_used"] == said["kv_tokens"] == 0
    for completion in found:
        metrics = completion.metrics
        assert metrics is not None
        assert metrics.completion_tokens == 9
        assert metrics.prompt_tokens == completion.usage.prompt_tokens
        assert metrics.ttft_s is not None
        assert 0 <= metrics.queue_s <= metrics.ttft_s
