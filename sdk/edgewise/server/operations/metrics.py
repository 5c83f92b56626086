"""``GET /metrics``: what the models that are loaded and the server count, for Prometheus.

Each family of `engine.metrics.FAMILIES` is there twice: as ``edgewise:NAME``, and as ``vllm:NAME``
where vLLM has it, so that dashboards made for vLLM show something here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Hosted, Models
from edgewise.server.api import Operation
from edgewise.server.operations.counts import Counts
from edgewise.server.operations.exposition import (
    CONTENT_TYPE,
    Exposed,
    Sample,
    bucket_samples,
    text_of,
)
from edgewise_runtime.engine.metrics import FAMILIES, Family
from edgewise_runtime.errors import EdgewiseError

PATIENCE = 2.0
"""Seconds for a model to say its numbers: one whose process hangs is left out."""

AS_VLLM: Mapping[str, tuple[str, ...]] = {
    "time_to_first_token_seconds": ("time_to_first_token_seconds",),
    "inter_token_latency_seconds": ("inter_token_latency_seconds",),
    "e2e_request_latency_seconds": ("e2e_request_latency_seconds",),
    "request_queue_time_seconds": ("request_queue_time_seconds",),
    "request_prefill_time_seconds": ("request_prefill_time_seconds",),
    "request_decode_time_seconds": ("request_decode_time_seconds",),
    "iteration_tokens_total": ("iteration_tokens_total",),
    "request_success_total": ("request_success_total",),
    "prompt_tokens_total": ("prompt_tokens_total",),
    "generation_tokens_total": ("generation_tokens_total",),
    "prefix_cache_queries_total": ("prefix_cache_queries_total", "prefix_cache_queries"),
    "prefix_cache_hits_total": ("prefix_cache_hits_total", "prefix_cache_hits"),
    "num_preemptions_total": ("num_preemptions_total",),
    "spec_decode_num_draft_tokens_total": ("spec_decode_num_draft_tokens_total",),
    "spec_decode_num_accepted_tokens_total": ("spec_decode_num_accepted_tokens_total",),
    "num_requests_running": ("num_requests_running",),
    "num_requests_waiting": ("num_requests_waiting",),
    "kv_cache_usage_perc": ("kv_cache_usage_perc",),
}
"""What vLLM calls a family, with and without the suffix that its client library adds."""

VLLM_REASONS: Mapping[str, str] = {"cancelled": "abort", "timeout": "abort"}
"""Reasons that a request ended for which vLLM has another word."""

Snapshot = Mapping[str, Any]


def operations(models: Models, counts: Counts) -> tuple[Operation, ...]:
    """``/metrics``."""

    async def metrics(_: Request) -> Response:
        said = await snapshots(loaded.hosted for loaded in models.loaded())
        page = text_of([*of_models(said), *_of_server(models, said), *counts.exposed()])
        return Response(page, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    return (
        Operation(
            method="GET", path="/metrics", summary="Numbers.", endpoint=metrics, text=CONTENT_TYPE
        ),
    )


async def snapshots(hosted: Iterable[Hosted]) -> dict[str, Snapshot | None]:
    """The numbers of each model by its name; None for one that does not say them."""
    there = list(hosted)
    said = await asyncio.gather(*map(_snapshot, there))
    return {one.facts.name: numbers for one, numbers in zip(there, said, strict=True)}


async def _snapshot(hosted: Hosted) -> Snapshot | None:
    try:
        return await asyncio.wait_for(hosted.metrics(), PATIENCE)
    except (EdgewiseError, TimeoutError, OSError):
        return None


def of_models(said: Mapping[str, Snapshot | None]) -> Iterator[Exposed]:
    """What the engines count, under our names and under vLLM's."""
    there = {name: numbers for name, numbers in said.items() if numbers is not None}
    for name, family in FAMILIES.items():
        samples = tuple(
            sample
            for model, numbers in there.items()
            if name in numbers
            for sample in _samples(family, numbers[name], {"model_name": model})
        )
        yield Exposed(f"edgewise:{name}", family.kind, family.help, samples)
        alike = tuple(_as_vllm(family, samples))
        for other in AS_VLLM.get(name, ()):
            yield Exposed(f"vllm:{other}", family.kind, family.help, alike)


def _samples(family: Family, value: Any, labels: Mapping[str, str]) -> Iterator[Sample]:
    if family.kind == "histogram":
        yield from bucket_samples(value["buckets"], value["sum"], labels)
    elif family.label:
        for word in family.values:
            yield Sample(value.get(word, 0), {**labels, family.label: word})
    else:
        yield Sample(value, labels)


def _as_vllm(family: Family, samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples under the labels that vLLM has: reasons in its words, tiers added up."""
    if not family.label:
        yield from samples
        return
    sums = Counter[tuple[tuple[str, str], ...]]()
    for sample in samples:
        labels = dict(sample.labels)
        word = labels.pop(family.label)
        if family.label == "finished_reason":
            labels[family.label] = VLLM_REASONS.get(word, word)
        sums[tuple(labels.items())] += int(sample.value)
    for key, value in sums.items():
        yield Sample(value, dict(key))


def _of_server(models: Models, said: Mapping[str, Snapshot | None]) -> Iterator[Exposed]:
    loaded = models.loaded()
    yield Exposed("edgewise:models_loaded", "gauge", "Models in memory.", (Sample(len(loaded)),))
    yield Exposed(
        "edgewise:model_up",
        "gauge",
        "Whether a model that is loaded says its numbers: 0 where its process is gone or hangs.",
        tuple(Sample(int(numbers is not None), {"model_name": m}) for m, numbers in said.items()),
    )
    yield Exposed(
        "edgewise:model_bytes",
        "gauge",
        "Memory that a model is counted with, in bytes.",
        tuple(Sample(one.bytes, {"model_name": one.hosted.facts.name}) for one in loaded),
    )
