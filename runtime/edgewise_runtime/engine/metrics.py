"""What the engine has done and is doing, counted under the names that servers of models use.

The engine reports what happens; any thread reads `Metrics.snapshot`. `FAMILIES` says of each name
what kind of number it is and what it counts, as a Prometheus endpoint has to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from threading import Lock
from time import perf_counter
from types import MappingProxyType
from typing import Any, Literal, get_args

from edgewise_runtime.engine.histogram import Histogram, steps_1_2_5
from edgewise_runtime.engine.records import (
    CachedTokens,
    EndReason,
    Phase,
    RequestMetrics,
    RequestRecord,
    StepRecord,
)
from edgewise_runtime.engine.trace import Trace

_SECONDS = steps_1_2_5(-4, 3)
_TOKENS = tuple(float(1 << i) for i in range(15))
_ROWS = tuple(float(1 << i) for i in range(9))


@dataclass(frozen=True, slots=True)
class Family:
    """What a name of `Metrics.snapshot` stands for.

    Attributes:
        kind: ``counter`` and ``gauge`` are numbers, ``histogram`` is `Histogram.snapshot`.
        help: what it counts, in its unit.
        label: where the numbers are by the values of a label, the label.
        values: what the label can be.
        bounds: of a histogram.
    """

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


def _counter(what: str, label: str = "", values: tuple[str, ...] = ()) -> Family:
    return Family("counter", what, label, values)


def _gauge(what: str) -> Family:
    return Family("gauge", what)


def _histogram(what: str, bounds: tuple[float, ...] = _SECONDS) -> Family:
    return Family("histogram", what, bounds=bounds)


FAMILIES = MappingProxyType(
    {
        "time_to_first_token_seconds": _histogram("From a request's arrival to its first token."),
        "inter_token_latency_seconds": _histogram(
            "Between tokens of a request after its first; tokens that come together share a wait."
        ),
        "e2e_request_latency_seconds": _histogram("From a request's arrival to its end."),
        "request_queue_time_seconds": _histogram("From a request's arrival until it first runs."),
        "request_prefill_time_seconds": _histogram("From then to its first token."),
        "request_decode_time_seconds": _histogram("From its first token to its last."),
        "step_seconds": _histogram("One step of the engine."),
        "iteration_tokens_total": _histogram("Tokens computed in a step.", _TOKENS),
        "step_batch_size": _histogram("Sequences in a step.", _ROWS),
        "request_success_total": _counter(
            "Requests that ended, by reason.", "finished_reason", get_args(EndReason)
        ),
        "prompt_tokens_total": _counter("Prompt tokens of requests that began."),
        "generation_tokens_total": _counter("Tokens generated."),
        "steps_total": _counter("Steps of the engine."),
        "prefill_tokens_total": _counter("Prompt tokens computed, again after preemptions."),
        "decode_tokens_total": _counter("Tokens computed for sequences that decode."),
        "prefix_cache_queries_total": _counter("Prompt tokens looked for in the prefix cache."),
        "prefix_cache_hits_total": _counter(
            "Prompt tokens found there, by where.", "tier", ("device", "memory", "disk", "bundle")
        ),
        "num_preemptions_total": _counter("Times that a sequence's pages were taken away."),
        "kv_pages_spilled_total": _counter("KV pages copied off the device."),
        "kv_pages_restored_total": _counter("KV pages copied back to the device."),
        "kv_pages_dropped_total": _counter(
            "KV pages for the disk that it did not take, or not fast enough."
        ),
        "spec_decode_num_draft_tokens_total": _counter("Draft tokens verified."),
        "spec_decode_num_accepted_tokens_total": _counter("Draft tokens that were right."),
        "num_requests_running": _gauge("Requests that are computed."),
        "num_requests_waiting": _gauge("Requests that wait to begin or to go on."),
        "kv_pages": _gauge("KV pages there are."),
        "kv_pages_used": _gauge("KV pages in use."),
        "kv_cache_usage_perc": _gauge("Used share of the KV pages, 0 to 1."),
        "kv_tokens": _gauge("Tokens whose keys and values lie in the pages in use."),
        "prefix_cache_bytes": _gauge(
            "Bytes of KV pages that no request needs, kept on the device for the next ones, those "
            "that are pinned not counted."
        ),
        "prefix_cache_limit_bytes": _gauge("How many that may be."),
    }
)
"""Every name of `Metrics.snapshot`."""


class Metrics:
    """Counts what an engine reports. Any thread may call anything.

    A request is reported by `on_queued`, `on_started`, `on_tokens` as often as some come, and
    `on_finished`; in between perhaps by `on_preempted` and then `on_started` again. Times are
    seconds of `perf_counter`.

    Attributes:
        trace: where steps and requests are recorded, too; None for nowhere. May be set at any time.
        kept: tells bytes of pages that are kept for the next requests, and how many may be. Set by
            an engine, before anybody else asks.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace = trace
        self.kept: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._lock = Lock()
        self._ids = count()
        self._phases = Counter[Phase | None]()
        self._kv = (0, 0, 0)  # pages used, all pages, tokens in those used
        self._counts = {
            name: 0 for name, f in FAMILIES.items() if f.kind == "counter" and not f.label
        }
        self._labelled = {
            name: Counter(dict.fromkeys(f.values, 0)) for name, f in FAMILIES.items() if f.label
        }
        self._histograms = {
            name: Histogram(f.bounds) for name, f in FAMILIES.items() if f.kind == "histogram"
        }

    def on_queued(self, prompt_tokens: int, at_s: float | None = None) -> RequestRecord:
        """A request has arrived, now unless `at_s` says when; return what names it from here on."""
        at_s = perf_counter() if at_s is None else at_s
        with self._lock:
            record = RequestRecord(next(self._ids), prompt_tokens, at_s, at_s)
            self._moved(None, record)
        return record

    def on_started(
        self, record: RequestRecord, at_s: float, cached: CachedTokens | None = None
    ) -> None:
        """A request begins to run, or goes on after a preemption.

        `cached` is what the prefix cache had of its prompt, None where it was not asked. Only the
        first time counts: what a preempted request finds are its own pages.
        """
        with self._lock:
            before = record.phase
            first = record.start(at_s, cached or CachedTokens())
            self._moved(before, record)
            if not first:
                return
            self._counts["prompt_tokens_total"] += record.prompt_tokens
            self._observe("request_queue_time_seconds", record.metrics().queue_s)
            if cached is not None:
                self._counts["prefix_cache_queries_total"] += record.prompt_tokens
                self._labelled["prefix_cache_hits_total"].update(asdict(cached))

    def on_tokens(self, record: RequestRecord, count: int, at_s: float) -> None:
        """`count` tokens have come out for a request that runs, together."""
        if count <= 0:
            return
        with self._lock:
            before = record.phase
            wait = record.take(count, at_s)
            self._counts["generation_tokens_total"] += count
            if wait is not None:
                self._histograms["inter_token_latency_seconds"].observe(wait / count, count)
            if before == record.phase:
                return
            self._moved(before, record)
            if wait is not None:
                return
            metrics = record.metrics()
            self._observe("time_to_first_token_seconds", metrics.ttft_s)
            self._observe("request_prefill_time_seconds", metrics.prefill_s)

    def on_drafted(self, record: RequestRecord, proposed: int, accepted: int) -> None:
        """`proposed` draft tokens were verified, of which the first `accepted` were right."""
        with self._lock:
            record.draft_proposed += proposed
            record.draft_accepted += accepted
            self._counts["spec_decode_num_draft_tokens_total"] += proposed
            self._counts["spec_decode_num_accepted_tokens_total"] += accepted

    def on_preempted(self, record: RequestRecord, at_s: float) -> None:
        """A request's pages were taken away; it waits."""
        with self._lock:
            before = record.phase
            record.preempt(at_s)
            self._moved(before, record)
            self._counts["num_preemptions_total"] += 1

    def on_finished(self, record: RequestRecord, reason: EndReason, at_s: float) -> RequestMetrics:
        """A request has ended, whatever its phase; return what it took.

        Reporting it again changes nothing.
        """
        with self._lock:
            before = record.phase
            if before is None:
                return record.metrics()
            record.enter(None, at_s)
            metrics = record.metrics()
            self._moved(before, record, metrics)
            self._labelled["request_success_total"][reason] += 1
            self._observe("e2e_request_latency_seconds", record.event_s - record.queued_s)
            self._observe("request_decode_time_seconds", metrics.decode_s)
            return metrics

    def on_step(self, step: StepRecord) -> None:
        """A step is over."""
        with self._lock:
            self._counts["steps_total"] += 1
            self._counts["prefill_tokens_total"] += step.prefill_tokens
            self._counts["decode_tokens_total"] += step.decode_tokens
            self._histograms["step_seconds"].observe(step.seconds)
            self._histograms["iteration_tokens_total"].observe(step.tokens)
            self._histograms["step_batch_size"].observe(step.batch)
            self._kv = (step.pages_used, step.pages_total, step.kv_tokens)
            if (trace := self.trace) is not None:
                trace.add_step(step)

    def on_kv(self, used: int, total: int, tokens: int = 0) -> None:
        """KV pages in use, all there are, and tokens in those in use: for changes between steps."""
        with self._lock:
            self._kv = (used, total, tokens)

    def on_pages_moved(self, *, spilled: int = 0, restored: int = 0, dropped: int = 0) -> None:
        """KV pages were copied off the device, or back to it, or did not come to lie on a disk."""
        with self._lock:
            self._counts["kv_pages_dropped_total"] += dropped
            self._counts["kv_pages_spilled_total"] += spilled
            self._counts["kv_pages_restored_total"] += restored

    def snapshot(self) -> dict[str, Any]:
        """Return all numbers at one moment, ready for JSON, by the names of `FAMILIES`."""
        with self._lock:
            used, total, tokens = self._kv
            kept, limit = self.kept()
            values: dict[str, Any] = {
                **self._counts,
                **{name: dict(counts) for name, counts in self._labelled.items()},
                **{name: histogram.snapshot() for name, histogram in self._histograms.items()},
                "num_requests_running": self._phases["prefill"] + self._phases["decode"],
                "num_requests_waiting": self._phases["queued"] + self._phases["preempted"],
                "kv_pages": total,
                "kv_pages_used": used,
                "kv_cache_usage_perc": used / total if total else 0.0,
                "kv_tokens": tokens,
                "prefix_cache_bytes": kept,
                "prefix_cache_limit_bytes": limit,
            }
        return {name: values[name] for name in FAMILIES}

    def _moved(
        self, before: Phase | None, record: RequestRecord, ended: RequestMetrics | None = None
    ) -> None:
        if before == record.phase:
            return
        self._phases[before] -= 1
        self._phases[record.phase] += 1
        if (trace := self.trace) is not None:
            shown = ended.to_json() if ended else None
            trace.enter(record.id, record.phase, record.event_s, shown)

    def _observe(self, name: str, value: float | None, times: int = 1) -> None:
        if value is not None:
            self._histograms[name].observe(value, times)
