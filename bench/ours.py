"""edgewise behind the benchmark's protocol, on the plans that its engine runs.

python ours.py BUNDLE --threads 2 [--cold]
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

import numpy as np

from edgewise_runtime.bundle import Bundle
from edgewise_runtime.devices.cpu import CpuDevice
from edgewise_runtime.text import Tokenizer
from protocol import cold, serve, token_at

PAGE = 16  # tokens in a KV page
BURST = 8  # decode steps in one call, the engine's default
HEADER = 8  # columns of `table` before the page ids
# Pages that each batch size has for itself: 2304 tokens alone, 512 for each of several sequences.
ALONE, TOGETHER, MOST_TOGETHER = 144, 32, 4


class Edgewise:
    """One program; sequences of different batch sizes keep pages of their own."""

    def __init__(self, path: Path, threads: int) -> None:
        bundle = Bundle.open(path)
        self.tokenizer = Tokenizer.from_folder(bundle.path)
        pages = ALONE + TOGETHER * MOST_TOGETHER
        self.program = CpuDevice(threads).load(bundle, load_symbols={"pages": pages})
        self._model = bundle.model
        self._filled: dict[int, int] = {}
        self._batch = 0
        self.step = self.program.view("step")
        self.tokens = self.program.view("tokens")
        self.positions = self.program.view("positions")
        self.row_seq = self.program.view("row_seq")
        self.logit_rows = self.program.view("logit_rows")
        self.table = self.program.view("table")
        self._sample_greedily()

    def prefill(self, tokens: int) -> None:
        self._filled.pop(1, None)
        self._assign_pages(1)
        self._fill(0, tokens)

    def prepare(self, batch: int, context: int) -> None:
        self._assign_pages(batch)
        if self._filled.get(batch) != context:
            for sequence in range(batch):
                self._fill(sequence, context)
        self._filled[batch] = context
        rows = range(batch)
        self.step[:3] = batch
        self.row_seq[:batch] = self.logit_rows[:batch] = rows
        self.positions[:batch] = context
        self.tokens[:batch] = [self._token(context, s) for s in rows]
        self.table[:batch, :HEADER] = [
            [context, s, 1, 0, self._model.context, 0, s, 0] for s in rows
        ]
        self._batch = batch

    def decode(self, steps: int) -> None:
        plan = self._plan("decode", b=self._batch)
        for start in range(0, steps, BURST):
            self.table[: self._batch, 5] = 0
            self.program.run(plan, min(BURST, steps - start))

    def _fill(self, sequence: int, tokens: int) -> None:
        """Prefills one sequence in chunks and samples after the last; `table` is as before."""
        chunk = self._model.prefill_chunk
        row = self.table[0].copy()
        self.table[0, HEADER:] = self.table[sequence, HEADER:]
        for start in range(0, tokens, chunk):
            rows = min(chunk, tokens - start)
            last = start + rows == tokens
            self.step[:3] = rows, 1, int(last)
            self.tokens[:rows] = [self._token(start + i, sequence) for i in range(rows)]
            self.positions[:rows] = np.arange(start, start + rows)
            self.row_seq[:rows] = 0
            self.table[0, :HEADER] = [start, 0, rows, 0, self._model.context, 0, 0, 0]
            self.program.run(self._plan("embed", n=rows))
            self.program.run(self._plan("prefill", n=rows, b=1))
            if last:
                self.logit_rows[0] = rows - 1
                self.program.run(self._plan("logits", n=rows, b=1, r=1))
                self.program.run(self._plan("sample", n=rows, b=1, r=1))
        self.table[0] = row

    def _assign_pages(self, batch: int) -> None:
        for sequence in range(batch):
            first, count = (0, ALONE) if batch == 1 else (ALONE + TOGETHER * sequence, TOGETHER)
            self.table[sequence, HEADER : HEADER + count] = np.arange(first, first + count)

    def _sample_greedily(self) -> None:
        """Every option off; end tokens are ignored, so that every step has all its rows."""
        options = self.program.view("sampling_f")
        options[:] = 0
        options[:, [1, 3]] = 1  # top_p and repetition penalty
        integers = self.program.view("sampling_i")
        integers[:] = 0
        integers[:, 4] = 1  # ignore_eos
        self.program.view("eos")[:] = -1

    def _token(self, position: int, sequence: int) -> int:
        return token_at(position, sequence, self._model.vocab)

    def _plan(self, operation: str, **sizes: int) -> str:
        plan = self.program.program.plan_for(operation, sizes)
        if plan is None:
            raise SystemExit(f"{self.program.bundle.name} has no {operation} for {sizes}")
        return plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args()
    if args.cold:
        cold(lambda: Edgewise(args.bundle, args.threads), prompt=128, context=2048)
        return
    engine = Edgewise(args.bundle, args.threads)
    about = {
        "engine": "edgewise",
        "version": version("edgewise"),
        "program": engine.program.program.id,
    }
    serve(engine, args.threads, about)


if __name__ == "__main__":
    main()
