"""Drives a loaded program by its step buffers alone, one explicit step at a time.

What the engine does with batches and chunks must not matter to any number; tests say here exactly
which rows run together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram

HEADER, PAGE = 8, 16
KV_LEN, Q_START, Q_LEN, STOP, LIMIT, COUNT, SLOT = range(7)
NEVER = 1 << 20

Floats = npt.NDArray[np.float32]


@dataclass
class Stream:
    """One sequence: its pages, and how many of its tokens are in them."""

    pages: list[int]
    slot: int = 0
    kv_len: int = 0
    tokens: list[int] = field(default_factory=list)


def ints(*values: Any) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32).reshape(-1)


class Driver:
    """Steps of a program; pages of a stream are dealt out from the end of the pool, shuffled."""

    def __init__(self, program: LoadedProgram, *, pages: int, seed: int = 0) -> None:
        self.program = program
        self.vocab = program.bundle.model.vocab
        self.batch = program.bundle.model.max_batch
        self.pages_per_stream = program.read("table").shape[1] - HEADER
        self._free = np.random.default_rng(seed).permutation(pages).tolist()
        program.write("eos", np.full(program.read("eos").shape, -1, np.int32))

    def stream(self, slot: int = 0) -> Stream:
        """A new sequence with all the pages it can use."""
        pages, self._free = self._free[: self.pages_per_stream], self._free[self.pages_per_stream :]
        return Stream(pages, slot)

    def prefill(self, chunks: Sequence[tuple[Stream, Sequence[int]]]) -> list[Floats]:
        """Run one prefill step over chunks of streams; return the logits of every row of each."""
        write = self.program.write
        n = sum(len(tokens) for _, tokens in chunks)
        table = np.zeros((len(chunks), HEADER + self.pages_per_stream), np.int32)
        tokens: list[int] = []
        positions: list[int] = []
        rows: list[int] = []
        for i, (stream, chunk) in enumerate(chunks):
            table[i, [KV_LEN, Q_START, Q_LEN, LIMIT]] = (
                stream.kv_len,
                len(tokens),
                len(chunk),
                NEVER,
            )
            table[i, SLOT] = stream.slot
            table[i, HEADER : HEADER + len(stream.pages)] = stream.pages
            positions += range(stream.kv_len, stream.kv_len + len(chunk))
            rows += [i] * len(chunk)
            tokens += chunk
        reach = max(stream.kv_len + len(chunk) for stream, chunk in chunks)
        write("step", ints(n, len(chunks), 0, reach, 0, 0, 0, 0))
        write("tokens", ints(tokens))
        write("positions", ints(positions))
        write("row_seq", ints(rows))
        write("table", table)
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
            self.program.write("step", ints(count), 2)
            self.program.write("logit_rows", np.arange(first, first + count, dtype=np.int32))
            self._run("logits", r=count)
            parts.append(self.program.read("logits", slice(0, count))[:, : self.vocab])
        return np.concatenate(parts)

    def decode(
        self, rows: Sequence[tuple[Stream, int]], k: int = 1, *, limits: Sequence[int] = ()
    ) -> tuple[list[list[int]], Floats]:
        """Decode greedily from the given last token of each stream.

        Returns:
            The tokens sampled for each stream, and the logits of the last repetition.
        """
        write, b = self.program.write, len(rows)
        table = np.zeros((b, HEADER + self.pages_per_stream), np.int32)
        for i, (stream, _) in enumerate(rows):
            limit = limits[i] if limits else NEVER
            table[i, [KV_LEN, Q_START, Q_LEN, LIMIT]] = stream.kv_len, i, 1, limit
            table[i, SLOT] = stream.slot
            table[i, HEADER : HEADER + len(stream.pages)] = stream.pages
        reach = max(stream.kv_len for stream, _ in rows) + k
        write("step", ints(b, b, b, reach, 0, 0, 0, 0))
        write("tokens", ints([token for _, token in rows]))
        write("positions", ints([stream.kv_len for stream, _ in rows]))
        write("row_seq", np.arange(b, dtype=np.int32))
        write("logit_rows", np.arange(b, dtype=np.int32))
        write("table", table)
        floats = np.zeros((b, 8), np.float32)
        floats[:, [1, 3]] = 1.0
        write("sampling_f", floats)
        write("sampling_i", np.zeros((b, 8), np.int32))
        self._run("decode", k, b=b)
        after, ring = self.program.read("table"), self.program.read("ring")
        sampled = []
        for i, (stream, _) in enumerate(rows):
            stream.kv_len = int(after[i, KV_LEN])
            sampled.append(ring[i, : after[i, COUNT]].tolist())
        return sampled, self.program.read("logits", slice(0, b))[:, : self.vocab]
