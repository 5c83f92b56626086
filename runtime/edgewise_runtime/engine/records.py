"""What is noted about a step of the engine and about a request. Times are of `perf_counter`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from edgewise_runtime.engine.waits import Waits

Phase = Literal["queued", "prefill", "decode", "preempted"]
"""``queued``: not yet begun; ``prefill``: begun, until a token comes; ``decode``: from that token
on; ``preempted``: its pages were taken away, and it waits to be prefilled again."""

EndReason = Literal["stop", "length", "cancelled", "timeout", "error"]
"""Why a request ended: a `FinishReason`, or the engine failed."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of the engine, noted when it is over.

    Attributes:
        started_s: when it began.
        seconds: how long it took, the work of the host included.
        budget: the most tokens it might have computed.
        prefill_tokens: prompt tokens computed, those recomputed after a preemption included.
        decode_tokens: tokens computed for rows that decode: a burst counts all of its tokens.
        draft_tokens: draft tokens verified.
        burst: tokens decoded for each row without the host looking, 0 where nothing decoded.
        batch: sequences that took part.
        waiting: sequences that wait after it.
        pages_used: KV pages in use after it.
        pages_total: KV pages there are.
        kv_tokens: tokens whose keys and values lie in the pages in use.
    """

    started_s: float
    seconds: float
    budget: int
    prefill_tokens: int
    decode_tokens: int
    draft_tokens: int
    burst: int
    batch: int
    waiting: int
    pages_used: int
    pages_total: int
    kv_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prefill_tokens + self.decode_tokens + self.draft_tokens


@dataclass(frozen=True, slots=True)
class CachedTokens:
    """Prompt tokens whose keys and values need not be computed, by where they were found."""

    device: int = 0
    memory: int = 0
    disk: int = 0
    bundle: int = 0

    @property
    def total(self) -> int:
        return self.device + self.memory + self.disk + self.bundle


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """What one request took. Seconds; None for what never happened.

    Attributes:
        queue_s: from its arrival until it first ran, or until it ended.
        ttft_s: from its arrival to its first token.
        itl_median_s: of the times between tokens after the first. Tokens that come together
            share the time since those before evenly. To 1.1% where more than 128 differ.
        itl_max_s: the longest a reader of the stream waited after the first token.
        prefill_s: from when it first ran to its first token.
        decode_s: from the first token to the last, preemptions included; 0 for a single token.
        prompt_tokens, cached_tokens: of the prompt, and how many of it were found in a cache.
        completion_tokens: tokens generated.
        preemptions: how often its pages were taken away.
        draft_proposed, draft_accepted: draft tokens verified, and those that were right.
    """

    queue_s: float
    ttft_s: float | None
    itl_median_s: float | None
    itl_max_s: float | None
    prefill_s: float | None
    decode_s: float | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    preemptions: int
    draft_proposed: int
    draft_accepted: int

    def to_json(self) -> dict[str, float | int | None]:
        return asdict(self)


@dataclass(slots=True, eq=False)
class RequestRecord:
    """A request from its arrival to its end. `Metrics` makes it and is the only one to write it.

    Its methods take the time of what happened; a time before that of the last event counts as the
    same time, for one thread may note the time before another thread's event and report it after.

    Attributes:
        id: unique within one `Metrics`.
        phase: None once it has ended.
        event_s: when it was last heard of.
        waits: seconds between tokens after the first.
    """

    id: int
    prompt_tokens: int
    queued_s: float
    event_s: float
    phase: Phase | None = "queued"
    started_s: float | None = None
    first_s: float | None = None
    last_s: float = 0.0
    longest_s: float | None = None
    waits: Waits = field(default_factory=Waits)
    cached_tokens: int = 0
    completion_tokens: int = 0
    preemptions: int = 0
    draft_proposed: int = 0
    draft_accepted: int = 0

    def enter(self, phase: Phase | None, at_s: float) -> None:
        self.event_s = max(self.event_s, at_s)
        self.phase = phase

    def start(self, at_s: float, cached: CachedTokens) -> bool:
        """Begin, or go on after a preemption; return whether this was the first time."""
        self.enter("prefill", at_s)
        if self.started_s is not None:
            return False
        self.started_s = self.event_s
        self.cached_tokens = cached.total
        return True

    def take(self, count: int, at_s: float) -> float | None:
        """Count new tokens, at least one; return the time since those before, None for the first.

        Tokens that come together with the first one have no time between them to count.
        """
        self.enter("decode", at_s)
        self.completion_tokens += count
        wait = None
        if self.first_s is None:
            self.first_s = self.event_s
        else:
            wait = self.event_s - self.last_s
            self.waits.add(wait / count, count)
            self.longest_s = max(wait, self.longest_s or 0.0)
        self.last_s = self.event_s
        return wait

    def preempt(self, at_s: float) -> None:
        self.enter("preempted", at_s)
        self.preemptions += 1

    def metrics(self) -> RequestMetrics:
        """Return what it took until now."""
        begun = self.event_s if self.started_s is None else self.started_s
        ttft = prefill = decode = None
        if self.first_s is not None:
            ttft, prefill = self.first_s - self.queued_s, self.first_s - begun
            decode = self.last_s - self.first_s
        return RequestMetrics(
            queue_s=begun - self.queued_s,
            ttft_s=ttft,
            itl_median_s=self.waits.median(),
            itl_max_s=self.longest_s,
            prefill_s=prefill,
            decode_s=decode,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            preemptions=self.preemptions,
            draft_proposed=self.draft_proposed,
            draft_accepted=self.draft_accepted,
        )
