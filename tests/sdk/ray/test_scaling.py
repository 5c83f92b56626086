"""How full replicas are, how many there are to be, and what they have counted together."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.ray.counted import together
from edgewise.ray.scaling import LOAD, load_of, policy, wanted
from edgewise_runtime.engine.metrics import FAMILIES, Metrics
from edgewise_runtime.engine.records import CachedTokens

LOADS = st.lists(st.floats(0, 10), max_size=8)


def said(running: int, waiting: int, kv: float) -> dict[str, float]:
    return {
        "num_requests_running": running,
        "num_requests_waiting": waiting,
        "kv_cache_usage_perc": kv,
    }


@pytest.mark.parametrize(
    ("running", "waiting", "kv", "load"),
    [
        (0, 0, 0.0, 0.0),
        (8, 0, 0.1, 1.0),
        (8, 8, 0.1, 2.0),
        (1, 0, 0.8, 1.0),
        (4, 0, 0.6, 0.75),
    ],
)
def test_a_replica_is_as_full_as_its_slots_or_its_pages(
    running: int, waiting: int, kv: float, load: float
) -> None:
    assert load_of(said(running, waiting, kv), 8, kv_full=0.8) == pytest.approx(load)
    assert load_of(said(running, waiting, kv), 8, full=2, kv_full=0.8) <= load


@given(loads=LOADS, replicas=st.integers(1, 16))
def test_among_those_wanted_each_has_what_it_is_made_for(loads: list[float], replicas: int) -> None:
    found = wanted(loads, replicas)
    if not loads:
        assert found == replicas
    elif len(loads) == replicas:
        assert found == pytest.approx(sum(loads))
    assert wanted([1.0] * max(len(loads), 1), replicas) == replicas


def test_ray_is_told_how_many_of_what_replicas_say() -> None:
    def context(metrics: object) -> SimpleNamespace:
        return SimpleNamespace(aggregated_metrics=metrics, current_num_replicas=3)

    assert policy(context({LOAD: {"a": 2.0, "b": 1.0, "c": 0.0}})) == (3.0, {})
    assert policy(context({LOAD: {"a": 2.0}})) == (6.0, {})
    assert policy(context({})) == policy(context(None)) == (3.0, {})


def counted(prompt: int, cached: int, used: int) -> dict[str, object]:
    metrics = Metrics()
    record = metrics.on_queued(prompt, 0.0)
    metrics.on_started(record, 1.0, CachedTokens(device=cached))
    metrics.on_tokens(record, 3, 2.0)
    metrics.on_finished(record, "stop", 3.0)
    metrics.on_kv(used, 100)
    return metrics.snapshot()


def test_what_engines_have_counted_is_added_up() -> None:
    one, two = counted(40, 16, 10), counted(8, 0, 50)
    both = together([one, two])
    assert list(both) == list(FAMILIES)
    assert both["prompt_tokens_total"] == 48
    assert both["prefix_cache_hits_total"]["device"] == 16
    assert both["request_success_total"]["stop"] == 2
    assert both["kv_pages"] == 200
    assert both["kv_cache_usage_perc"] == pytest.approx(0.3)
    waited = both["request_queue_time_seconds"]
    assert (waited["count"], waited["sum"]) == (2, 2.0)
    assert waited["buckets"]["+Inf"] == 2
    assert set(both["prefix_cache_hits_total"]) == {"device", "memory", "disk", "bundle"}


def test_no_engine_has_counted_nothing() -> None:
    none = together([])
    assert none["kv_pages"] == none["kv_cache_usage_perc"] == 0
