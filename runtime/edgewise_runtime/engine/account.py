"""What an engine reports about its requests, steps and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter

from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.engine.records import CachedTokens, StepRecord
from edgewise_runtime.engine.scheduler import Scheduler
from edgewise_runtime.engine.sequence import Piece, Sequence
from edgewise_runtime.engine.step import Step
from edgewise_runtime.kv.base import KvMemory
from edgewise_runtime.kv.holding import GONE


class Account:
    """Tells `Metrics` what happens in one engine."""

    def __init__(self, metrics: Metrics, scheduler: Scheduler, memory: KvMemory) -> None:
        self.metrics = metrics
        self._scheduler = scheduler
        self._memory = memory

    def queued(self, sequences: Iterable[Sequence]) -> None:
        """Sequences have begun to wait."""
        for sequence in sequences:
            sequence.record = self.metrics.on_queued(sequence.prompt_len, sequence.created)

    def moved(self, now: float) -> None:
        """The scheduler has chosen a step: who was interrupted for it, and who begins."""
        for sequence in self._scheduler.preempted:
            if sequence.record is not None:
                self.metrics.on_preempted(sequence.record, now)
        for sequence in self._scheduler.started:
            holding = sequence.holding
            if sequence.record is None or holding is None:
                continue
            if not sequence.tokens and not sequence.prefill_s:
                sequence.cached_tokens = holding.found.total
            where = holding.found
            found = CachedTokens(where.device, memory=where.restored, bundle=where.shipped)
            self.metrics.on_started(sequence.record, now, found)

    def took(self, sequence: Sequence, piece: Piece) -> None:
        """A sequence has got tokens."""
        if sequence.record is not None:
            self.metrics.on_tokens(sequence.record, len(piece.token_ids), perf_counter())

    def drafted(self, sequence: Sequence, proposed: int, accepted: int) -> None:
        """Draft tokens were verified."""
        if sequence.record is not None:
            self.metrics.on_drafted(sequence.record, proposed, accepted)

    def stepped(
        self, step: Step, drafts: Mapping[Sequence, tuple[int, ...]], burst: int, started: float
    ) -> None:
        """A step is over. `burst` is how many tokens those without a draft have decoded."""
        used, live = self._pages()
        plain = len(step.decodes) - len(drafts)
        self.metrics.on_step(
            StepRecord(
                started_s=started,
                seconds=perf_counter() - started,
                budget=self._scheduler.limits.tokens,
                prefill_tokens=step.prefill_tokens,
                decode_tokens=plain * burst + len(drafts),
                draft_tokens=sum(map(len, drafts.values())),
                burst=burst if step.decodes else 0,
                batch=len(step.chunks) + len(step.decodes),
                waiting=len(self._scheduler.waiting),
                pages_used=used,
                pages_total=len(self._memory),
                kv_tokens=live,
            )
        )

    def ended(self, sequence: Sequence) -> None:
        """A sequence has ended."""
        if sequence.record is not None:
            reason = sequence.finish_reason or "cancelled"
            sequence.metrics = self.metrics.on_finished(sequence.record, reason, perf_counter())
        used, live = self._pages()
        self.metrics.on_kv(used, len(self._memory), live)

    def _pages(self) -> tuple[int, int]:
        """Pages that sequences hold, and the tokens in them; shared ones count once, a token that
        is in pages of several state groups in each."""
        holdings = [s.holding for s in self._scheduler.running if s.holding is not None]
        held = self._memory.held
        # What several hold is full of the same tokens for all of them.
        size = self._memory.page_tokens
        there = written = 0
        for holding in holdings:
            for row in holding.rows:
                gone = row.count(GONE) if holding.beside or row[:1] == [GONE] else 0
                there += len(row) - gone
                written += holding.written - gone * size
        return held, written - (there - held) * size
