"""A record of what the engine did and when, for https://ui.perfetto.dev or chrome://tracing.

The format is Chrome's Trace Event Format as a JSON object. Steps are complete events (``X``) of one
thread; counters (``C``) follow each; every request is a track of its own, where its phases are
nested asynchronous events (``b`` and ``e`` by ``id``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

from edgewise_runtime.engine.records import Phase, StepRecord
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import write_json

Event = dict[str, Any]

MOST_ENTRIES = 100_000
"""About 60 MB as a file, if all are steps."""

_ENGINE = {"pid": 1, "tid": 1}


@dataclass(frozen=True, slots=True)
class Span:
    """A phase of a request, or with `phase` None the whole of it. `end_s` is None while it goes on.

    Attributes:
        args: shown beside it.
    """

    request: int
    phase: Phase | None
    start_s: float
    end_s: float | None
    args: Mapping[str, object]


class Trace:
    """The latest steps of an engine and phases of its requests. Any thread may call anything."""

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        """Keep at most `most` steps, phases and requests; the oldest go first.

        Raises InputError ``input.trace`` where `most` is not positive.
        """
        if most < 1:
            raise InputError(f"A trace cannot keep {most} entries.", code="input.trace")
        self._lock = Lock()
        self._entries = deque[StepRecord | Span](maxlen=most)
        self._requests = dict[int, Span]()
        self._phases = dict[int, Span]()
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """Steps, phases and requests that had to go."""
        return self._dropped

    def add_step(self, step: StepRecord) -> None:
        """Record a step that is over."""
        with self._lock:
            self._add(step)

    def enter(
        self,
        request: int,
        phase: Phase | None,
        at_s: float,
        ended: Mapping[str, object] | None = None,
    ) -> None:
        """Record that a request enters a phase, or with None that it ends, which `ended` shows.

        It is recorded from when it is first heard of. Its number is no other's, also once it has
        ended.
        """
        with self._lock:
            if (left := self._phases.pop(request, None)) is not None:
                self._add(Span(request, left.phase, left.start_s, at_s, {}))
            if phase is not None:
                self._requests.setdefault(request, Span(request, None, at_s, None, {}))
                self._phases[request] = Span(request, phase, at_s, None, {})
            elif (whole := self._requests.pop(request, None)) is not None:
                self._add(Span(request, None, whole.start_s, at_s, ended or {}))

    def to_json(self) -> dict[str, Any]:
        """Return the trace as the format's JSON object; time 0 is the first thing in it."""
        with self._lock:
            entries = list(self._entries)
            spans = [*self._requests.values(), *self._phases.values()]
            dropped = self._dropped
        steps = [entry for entry in entries if isinstance(entry, StepRecord)]
        spans = [*(entry for entry in entries if isinstance(entry, Span)), *spans]
        starts = [*(step.started_s for step in steps), *(span.start_s for span in spans)]
        clock = _Clock(min(starts, default=0.0))
        events = [*_steps(steps, clock), *_requests(spans, clock)]
        # Stable: where times are equal, the events of a request stay in order.
        events.sort(key=lambda event: event["ts"])
        return {
            "traceEvents": [*_names(), *events],
            "displayTimeUnit": "ms",
            "otherData": {"dropped": dropped},
        }

    def write(self, path: Path) -> None:
        """Write the trace to a file, whole or not at all.

        Raises:
            StorageError: as `files.write_bytes` does.
        """
        write_json(path, self.to_json())

    def _add(self, entry: StepRecord | Span) -> None:
        self._dropped += len(self._entries) == self._entries.maxlen
        self._entries.append(entry)


@dataclass(frozen=True, slots=True)
class _Clock:
    """Turns seconds into the format's microseconds, of which it keeps whole nanoseconds."""

    zero_s: float

    def us(self, at_s: float) -> float:
        return round((at_s - self.zero_s) * 1e9) / 1e3


def _names() -> Iterator[Event]:
    for name, value in (("process_name", "edgewise"), ("thread_name", "engine")):
        yield {"ph": "M", "name": name, **_ENGINE, "args": {"name": value}}


def _steps(steps: Sequence[StepRecord], clock: _Clock) -> Iterator[Event]:
    starts = [*(clock.us(step.started_s) for step in steps), float("inf")]
    for step, (start, following) in zip(steps, pairwise(starts), strict=True):
        # A sum rounded up must not reach into the next step: viewers drop what overlaps.
        end = max(start, min(clock.us(step.started_s + step.seconds), following))
        yield {
            "ph": "X",
            "name": _step_name(step),
            "cat": "step",
            **_ENGINE,
            "ts": start,
            "dur": round(end - start, 3),
            "args": {
                "budget": step.budget,
                "tokens": step.tokens,
                "prefill_tokens": step.prefill_tokens,
                "decode_tokens": step.decode_tokens,
                "draft_tokens": step.draft_tokens,
                "burst": step.burst,
                "batch": step.batch,
                "pages_used": step.pages_used,
                "kv_tokens": step.kv_tokens,
            },
        }
        counters = {
            "tokens": {
                "prefill": step.prefill_tokens,
                "decode": step.decode_tokens,
                "draft": step.draft_tokens,
            },
            "sequences": {"running": step.batch, "waiting": step.waiting},
            "kv pages": {"used": step.pages_used, "total": step.pages_total},
        }
        for name, values in counters.items():
            counter = {"ph": "C", "name": name, "cat": "step", **_ENGINE}
            yield {**counter, "ts": end, "args": values}


def _step_name(step: StepRecord) -> str:
    decodes = "verify" if step.draft_tokens else "decode" if step.decode_tokens else ""
    if not step.prefill_tokens:
        return decodes or "step"
    return f"prefill+{decodes}" if decodes else "prefill"


def _requests(spans: Sequence[Span], clock: _Clock) -> Iterator[Event]:
    """The events of each request in order: its begin, those of its phases, its end."""
    wholes = {span.request: span for span in spans if span.phase is None}
    phases = dict[int, list[Span]]()
    for span in spans:
        if span.phase is not None:
            phases.setdefault(span.request, []).append(span)
    for request, whole in wholes.items():
        yield _edge(whole, "b", clock.us(whole.start_s), args=whole.args)
        for phase in phases.get(request, ()):
            yield _edge(phase, "b", clock.us(phase.start_s))
            if phase.end_s is not None:
                yield _edge(phase, "e", clock.us(phase.end_s))
        if whole.end_s is not None:
            yield _edge(whole, "e", clock.us(whole.end_s))


def _edge(span: Span, ph: str, ts: float, args: Mapping[str, object] | None = None) -> Event:
    event: Event = {"ph": ph, "cat": "request", "name": span.phase or f"request {span.request}"}
    event |= {"id": str(span.request), **_ENGINE, "ts": ts}
    return event | {"args": dict(args)} if args else event
