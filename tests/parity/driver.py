"""Drives a loaded program by its step buffers alone, one explicit step at a time.

What the engine does with batches and chunks must not matter to any number; tests say here exactly
which rows run together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.step_buffers import StepBuffers
from edgewise_runtime.engine.table_rows import Line
from edgewise_runtime.format.abi import COUNT, KV_LEN

NEVER = 1 << 20
GREEDY = SamplingParams(temperature=0.0, top_p=1.0)

Floats = npt.NDArray[np.float32]


@dataclass
class Stream:
    """One sequence: its pages, how many of its tokens are in them, and its pages of the other state
    groups."""

    pages: list[int]
    slot: int = 0
    kv_len: int = 0
    tokens: list[int] = field(default_factory=list)
    beside: list[list[int]] = field(default_factory=list)


def _line(stream: Stream, rows: int, limit: int = NEVER) -> Line:
    return Line(stream.kv_len, rows, stream.pages, limit, stream.slot, stream.beside)


class Driver:
    """Steps of a program; pages of a stream are dealt out from the end of the pool, shuffled."""

    def __init__(self, program: LoadedProgram, *, pages: int, seed: int = 0) -> None:
        self.program = program
        self.vocab = program.bundle.model.vocab
        self.batch = program.bundle.model.max_batch
        self._groups = len(program.bundle.manifest.state_groups)
        self._buffers = StepBuffers(program, ())
        self.pages_per_stream = self._buffers.pages
        self._free = np.random.default_rng(seed).permutation(pages).tolist()

    def stream(self, slot: int = 0) -> Stream:
        """A new sequence with all the pages it can use."""
        pages, *beside = (self._taken() for _ in range(self._groups))
        return Stream(pages, slot, beside=beside)

    def _taken(self) -> list[int]:
        pages: list[int] = self._free[: self.pages_per_stream]
        self._free = self._free[self.pages_per_stream :]
        return pages

    def prefill(self, chunks: Sequence[tuple[Stream, Sequence[int]]]) -> list[Floats]:
        """Run one prefill step over chunks of streams; return the logits of every row of each."""
        n = sum(len(tokens) for _, tokens in chunks)
        self._buffers.compute(
            [_line(stream, len(chunk)) for stream, chunk in chunks],
            [token for _, chunk in chunks for token in chunk],
            reach=max(stream.kv_len + len(chunk) for stream, chunk in chunks),
        )
        self._run("embed", n=n)
        self._run("prefill", n=n, b=len(chunks))
        logits = self._all_logits(n)
        found, start = [], 0
        for stream, chunk in chunks:
            found.append(logits[start : start + len(chunk)])
            start += len(chunk)
            stream.kv_len += len(chunk)
        return found

    def _run(self, operation: str, k: int = 1, **symbols: int) -> None:
        plan = self.program.program.plan_for(operation, symbols)
        assert plan is not None, f"no plan for {operation} {symbols}"
        self.program.run(plan, k)

    def _all_logits(self, n: int) -> Floats:
        parts = []
        for first in range(0, n, self.batch):
            count = min(self.batch, n - first)
            self._buffers.logit_rows(range(first, first + count))
            self._run("logits", r=count)
            parts.append(self.program.read("logits", slice(0, count))[:, : self.vocab])
        return np.concatenate(parts)

    def decode(
        self,
        rows: Sequence[tuple[Stream, int]],
        k: int = 1,
        *,
        limits: Sequence[int] = (),
        params: SamplingParams = GREEDY,
    ) -> tuple[list[list[int]], Floats]:
        """Decode from the given last token of each stream, greedily if nothing else is asked for.

        Returns:
            The tokens sampled for each stream, and the logits of the last repetition.
        """
        b = len(rows)
        reach = max(stream.kv_len for stream, _ in rows) + k
        each = zip(rows, limits or [NEVER] * b, strict=True)
        self._buffers.compute(
            [_line(stream, 1, limit) for (stream, _), limit in each],
            [token for _, token in rows],
            reach=reach,
            logits=b,
        )
        self._buffers.sampling([(params, 0, row) for row in range(b)])
        self._run("decode", k, b=b, t=reach)
        after, ring = self.program.read("table"), self.program.read("ring")
        sampled = []
        for i, (stream, _) in enumerate(rows):
            stream.kv_len = int(after[i, KV_LEN])
            sampled.append(ring[i, : after[i, COUNT]].tolist())
        return sampled, self.program.read("logits", slice(0, b))[:, : self.vocab]

    def forward(
        self, rows: Sequence[tuple[Stream, int]], params: SamplingParams = GREEDY
    ) -> tuple[list[int], Floats]:
        """Decode one token for each stream as `decode` does, in two calls: the logits, the draw.

        Returns:
            The tokens sampled, and the logits.
        """
        b = len(rows)
        reach = max(stream.kv_len for stream, _ in rows) + 1
        self._buffers.compute(
            [_line(stream, 1) for stream, _ in rows],
            [token for _, token in rows],
            reach=reach,
            logits=b,
        )
        self._run("forward", b=b, t=reach)
        for stream, _ in rows:
            stream.kv_len += 1
        self._buffers.draw([_line(stream, 1) for stream, _ in rows])
        self._buffers.sampling([(params, 0, row) for row in range(b)])
        self._run("sample", b=b)
        tokens = [drawn[0] for drawn in self._buffers.drawn(b)]
        return tokens, self.program.read("logits", slice(0, b))[:, : self.vocab]
