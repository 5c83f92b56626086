"""What /metrics says, read by a reader that knows only the format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.server.operations.counts import Counts
from edgewise.server.operations.exposition import text_of
from edgewise.server.operations.metrics import AS_VLLM, of_models
from edgewise.server.operations.operations import Operations
from edgewise_runtime.engine.metrics import FAMILIES, Metrics
from edgewise_runtime.engine.records import CachedTokens
from tests.sdk.server.operations.prometheus import Read, read
from tests.sdk.server.operations.serving import serving


def engine(tokens: int = 4) -> Metrics:
    """The numbers of an engine that answered one request, and has another."""
    metrics = Metrics()
    record = metrics.on_queued(10, 0.0)
    metrics.on_started(record, 0.25, CachedTokens(device=6, disk=2))
    metrics.on_tokens(record, 1, 0.75)
    metrics.on_tokens(record, tokens - 1, 1.0)
    metrics.on_finished(record, "cancelled", 1.0)
    metrics.on_queued(3, 1.0)
    metrics.on_kv(3, 12, 40)
    return metrics


def families(**models: Metrics | None) -> dict[str, Read]:
    said = {name: None if one is None else one.snapshot() for name, one in models.items()}
    return read(text_of(of_models(said)))


def test_every_number_of_an_engine_is_there_under_our_name() -> None:
    found = families(m=engine())
    for name, family in FAMILIES.items():
        assert found[f"edgewise:{name}"].kind == family.kind
    assert found["edgewise:prompt_tokens_total"].of(model_name="m") == [10]
    assert found["edgewise:num_requests_waiting"].of(model_name="m") == [1]
    assert found["edgewise:kv_cache_usage_perc"].of(model_name="m") == [0.25]
    assert found["edgewise:prefix_cache_hits_total"].of(tier="disk") == [2]
    assert found["edgewise:request_success_total"].of(finished_reason="cancelled") == [1]
    first = found["edgewise:time_to_first_token_seconds"]
    assert first.of("_sum") == [0.75]
    assert first.of("_bucket", le="0.5") == [0]
    assert first.of("_bucket", le="1") == [1]


@pytest.mark.parametrize(("name", "aliases"), AS_VLLM.items())
def test_dashboards_of_vllm_find_their_names(name: str, aliases: tuple[str, ...]) -> None:
    found = families(m=engine())
    for alias in aliases:
        assert found[f"vllm:{alias}"].kind == FAMILIES[name].kind


def test_vllms_numbers_have_vllms_labels() -> None:
    found = families(m=engine())
    for name in ("vllm:prefix_cache_hits", "vllm:prefix_cache_hits_total"):
        assert list(found[name].samples) == [(name, (("model_name", "m"),))]
        assert found[name].of() == [8]
    reasons = found["vllm:request_success_total"]
    assert reasons.of(finished_reason="abort") == [1]
    assert reasons.of(finished_reason="cancelled") == []


def test_each_model_has_its_numbers_and_one_that_is_gone_has_none() -> None:
    found = families(a=engine(3), b=engine(7), gone=None)
    assert found["edgewise:generation_tokens_total"].of() == [3, 7]
    assert found["edgewise:generation_tokens_total"].of(model_name="b") == [7]
    assert found["edgewise:generation_tokens_total"].of(model_name="gone") == []


@given(st.text())
def test_any_name_of_a_model_can_be_read(name: str) -> None:
    found = read(text_of(of_models({name: engine().snapshot()})))
    assert found["edgewise:step_seconds"].of("_count", model_name=name) == [0]


def test_requests_are_counted_by_the_template_of_their_route() -> None:
    with serving(Operations()) as client:
        client.get("/plain/canary-1")
        client.get("/plain/canary-2")
        client.get("/nothing/canary-3")
        client.get("/plain/canary-4", method="POST")
        client.get("/failing?canary-5")
        client.get("/plain/x", method="BREW")
        page = client.get("/metrics").text
    found = read(page)
    answered = found["edgewise:http_requests_total"]
    assert answered.of(route="/plain/{word}", method="GET", status="2xx") == [2]
    assert answered.of(route="/plain/{word}", method="POST", status="2xx") == [1]
    assert answered.of(route="/plain/{word}", method="other", status="4xx") == [1]
    assert answered.of(route="", method="GET", status="4xx") == [1]
    assert answered.of(route="/failing", method="GET", status="5xx") == [1]
    assert found["edgewise:http_requests_open"].of() == [1]
    assert found["edgewise:models_loaded"].of() == [0]
    assert "canary" not in page


def test_restarts_are_counted_by_model() -> None:
    counts = Counts()
    counts.on_restart('a "model"')
    counts.on_restart('a "model"')
    found = read(text_of(counts.exposed()))
    assert found["edgewise:model_restarts_total"].of(model_name='a "model"') == [2]


def test_the_page_says_what_it_is() -> None:
    with serving(Operations()) as client:
        answer = client.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
