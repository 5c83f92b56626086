"""Runs a step on a device: plans, in their order, and what they drew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Rows
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.batch import Batch, Span, plan_for
from edgewise_runtime.engine.logprobs import TokenLogprob, read_logprobs, run_logprobs
from edgewise_runtime.engine.masks import MaskMaker, Masks
from edgewise_runtime.engine.pooling import STATES, Pooled
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.step import Chunk
from edgewise_runtime.format.abi import NOT_FINITE, mask_words


class Drawn(NamedTuple):
    """Tokens that a step drew for a sequence, with their log-probabilities where it wants them.

    Not `sound` if there is none after them: its logits were not finite. Where they came in a
    `burst`, all were drawn as the first had to be.
    """

    sequence: Sequence
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    sound: bool = True
    burst: bool = False


def _drawn(sequence: Sequence, tokens: Rows[int], logprobs: tuple[TokenLogprob, ...] = ()) -> Drawn:
    """What the device has drawn, which says by its last token that there is none."""
    sound = tokens[-1] != NOT_FINITE
    return Drawn(sequence, tuple(tokens if sound else tokens[:-1]), logprobs, sound)


class Runner:
    """Runs what the scheduler chose. One thread at a time."""

    def __init__(self, program: LoadedProgram) -> None:
        self._program = program
        self._batch = Batch(program)
        self._masks = MaskMaker(mask_words(program.bundle.model.vocab))
        self.rows = self._batch.rows
        self.sequences = self._batch.sequences

    def prefill(self, chunks: Rows[Chunk], decodes: Rows[Sequence] = ()) -> list[Drawn]:
        """Prefill chunks of prompts, and draw a token for those that are whole now.

        With `decodes` their next tokens come out of the same pass over the weights, which takes
        little longer. Only for programs whose decode and prefill agree to the bit.
        """
        spans = [
            Span(c.sequence, c.start, tuple(c.sequence.known[c.start : c.start + c.count]))
            for c in chunks
        ]
        spans += [Span(s, s.computed, (s.known[-1],)) for s in decodes]
        drawn = [chunk.sequence for chunk in chunks if chunk.draws]
        masks = self._masks.begin([(s, ()) for s in (*drawn, *decodes)])
        self._prefill(spans)
        self._pool(chunks)
        ends = np.cumsum([span.count for span in spans]) - 1
        whole = [*(chunk.draws for chunk in chunks), *(True for _ in decodes)]
        drawing = [
            (span.sequence, int(end))
            for span, end, draws in zip(spans, ends, whole, strict=True)
            if draws
        ]
        if not drawing:
            return []
        self._batch.logit_rows([row for _, row in drawing])
        self._call("logits", r=len(drawing))
        tokens, said = self._sample([(s, len(s.known)) for s, _ in drawing], masks())
        return [
            _drawn(sequence, [token], one)
            for (sequence, _), token, one in zip(drawing, tokens, said, strict=True)
        ]

    def decode(self, sequences: Rows[Sequence], burst: int) -> list[Drawn]:
        """Decode a burst for all of them together."""
        if burst == 1 and any(sequence.masked for sequence in sequences):
            return self._decode_masked(sequences)
        masks = self._masks.begin([(sequence, ()) for sequence in sequences])
        reach = self._batch.decode(sequences, burst, masks())
        self._call("decode", k=burst, b=len(sequences), t=reach)
        tokens = self._batch.sampled(len(sequences))
        said = self._logprobs(sequences)
        drawn = map(_drawn, sequences, tokens, said)
        return [one._replace(burst=True) for one in drawn]

    def _decode_masked(self, sequences: Rows[Sequence]) -> list[Drawn]:
        """Decode one token, with masks that are made meanwhile."""
        masks = self._masks.begin([(sequence, ()) for sequence in sequences])
        reach = self._batch.forward(sequences)
        self._call("forward", b=len(sequences), t=reach)
        tokens, said = self._sample([(s, len(s.known)) for s in sequences], masks())
        return [
            _drawn(sequence, [token], one)
            for sequence, token, one in zip(sequences, tokens, said, strict=True)
        ]

    def verify(self, drafts: Mapping[Sequence, tuple[int, ...]]) -> list[Drawn]:
        """Draw the next token of each sequence, and those after it while its draft is right.

        Every position is drawn with the random number that plain decoding would use for it, from
        the same distribution: the tokens are the ones that it would give. (A draft that the draw
        decides about is speculative sampling by coupling: Leviathan, Kalman, Matias, "Fast
        Inference from Transformers via Speculative Decoding", ICML 2023, section 2.)
        """
        spans = [Span(s, s.computed, (s.known[-1], *draft)) for s, draft in drafts.items()]
        masks = self._masks.begin(list(drafts.items()))
        self._prefill(spans)
        rows = [(s, len(s.known) + i) for s, draft in drafts.items() for i in range(len(draft) + 1)]
        self._batch.logit_rows(range(len(rows)))
        self._call("logits", r=len(rows))
        tokens, said = self._sample(rows, masks())
        drawn, first = [], 0
        for sequence, draft in drafts.items():
            mine = tokens[first : first + len(draft) + 1]
            right = next(
                (i for i, (a, b) in enumerate(zip(mine, draft, strict=False)) if a != b), len(draft)
            )
            logprobs = tuple(one for row in said[first : first + right + 1] for one in row)
            drawn.append(_drawn(sequence, mine[: right + 1], logprobs))
            first += len(draft) + 1
        return drawn

    def logits(
        self, sequence: Sequence, reserve: Callable[[int, int], None]
    ) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """Prefill a whole sequence; yield the logits after each row, some rows at a time.

        Args:
            reserve: makes room for tokens from one position to another.
        """
        vocab, length = self._program.bundle.model.vocab, len(sequence.known)
        for start in range(0, length, self.rows):
            tokens = tuple(sequence.known[start : start + self.rows])
            reserve(start, start + len(tokens))
            self._prefill([Span(sequence, start, tokens)])
            for first in range(0, len(tokens), self.sequences):
                rows = range(first, min(first + self.sequences, len(tokens)))
                self._batch.logit_rows(rows)
                self._call("logits", r=len(rows))
                read = self._program.read("logits", slice(0, len(rows)))
                yield start + first, read[:, :vocab]

    def _pool(self, chunks: Rows[Chunk]) -> None:
        """Hand the hidden states of the step just run to the sequences that ask for them."""
        wanted: list[tuple[Pooled, int]] = []
        first = 0
        for chunk in chunks:
            if (pooled := chunk.sequence.pooled) is not None:
                rows = pooled.wanted(chunk.count, last=chunk.last)
                wanted += [(pooled, first + row) for row in rows]
            first += chunk.count
        for start in range(0, len(wanted), self.sequences):
            part = wanted[start : start + self.sequences]
            self._batch.logit_rows([row for _, row in part])
            self._call(STATES, r=len(part))
            states = self._program.read(STATES, slice(0, len(part)))
            for nth, (pooled, _) in enumerate(part):
                pooled.add(states[nth : nth + 1])

    def _prefill(self, spans: Rows[Span]) -> None:
        rows = sum(span.count for span in spans)
        self._batch.prefill(spans)
        self._call("embed", n=rows)
        self._call("prefill", n=rows, b=len(spans))

    def close(self) -> None:
        """End the thread that masks are made on. Closing twice is fine."""
        self._masks.close()

    def _sample(
        self, rows: Rows[tuple[Sequence, int]], masks: Masks
    ) -> tuple[list[int], list[tuple[TokenLogprob, ...]]]:
        self._batch.sample(rows, masks)
        self._call("sample", b=len(rows))
        tokens = [drawn[0] for drawn in self._batch.sampled(len(rows))]
        return tokens, self._logprobs([sequence for sequence, _ in rows])

    def _logprobs(self, sequences: Rows[Sequence]) -> list[tuple[TokenLogprob, ...]]:
        """What each of them wants to be told of its token: of one at most."""
        wanted = [sequence.params for sequence in sequences]
        if not any(params.logprobs for params in wanted):
            return [()] * len(wanted)
        self._batch.recount(len(sequences))
        run_logprobs(self._program, len(sequences))
        found = read_logprobs(self._program, wanted)
        return [() if one is None else (one,) for one in found]

    def _call(self, operation: str, k: int = 1, **symbols: int) -> None:
        self._program.run(plan_for(self._program, operation, **symbols), k)
