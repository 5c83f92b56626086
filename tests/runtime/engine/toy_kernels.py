"""What the plans of the toy program do to its buffers, in parts that a failure can come between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import Array
from edgewise_runtime.format.abi import (
    COUNT,
    KV_LEN,
    LIMIT,
    MASKED,
    PAGE_TOKENS,
    Q_LEN,
    Q_START,
    RING,
    SLOT,
    STOP,
    TABLE_HEADER,
    TABLES,
    TOP_LOGPROBS,
)
from edgewise_runtime.format.plan import Plan
from tests.runtime.engine.toy_bundle import Bounds
from tests.runtime.engine.toy_model import (
    VOCAB,
    WHOLE,
    Draw,
    choose,
    digest_of,
    logits_of,
    mix,
    state_of,
)

POISON = 0xFFFF_FFFF_FFFF_FFFF
NONE, EMBEDDED, COMPUTED = range(3)
"""What a row of ``x`` holds."""


class FaultError(AssertionError):
    """Something that no correct caller of a program does."""


class ToyKernels:
    """The plans as iterators that do one part of their work after the other.

    Attributes:
        kv: a word per token of each page: its state, then one bit that tells whether decode wrote
            it, where that writes something else. uint64 [pages, 16].
        may_write: whether a page may be written; None where nobody says.
    """

    def __init__(self, bounds: Bounds, arrays: dict[str, Array]) -> None:
        self.may_write: Callable[[int], bool] | None = None
        self._bounds = bounds
        self._arrays = arrays
        arrays["kv.0"].fill(POISON & 0xFFFF_FFFF)
        self.kv = arrays["kv.0"].reshape(bounds.pages, -1).view(np.uint64)
        self._works: dict[str, Callable[[int], Iterator[None]]] = {
            "embed": self._embed,
            "prefill": self._prefill,
            "prefill_few": self._prefill,
            "logits": self._gather,
            "sample": self._sample,
            "decode": self._decode,
            "decode_one": self._decode,
            "forward": self._forward,
            "logprobs": self._logprobs,
        }
        self.forget()

    def work(self, plan: Plan, k: int) -> Iterator[None]:
        """The parts of a plan, k times."""
        self._check_symbols(plan)
        return self._works[plan.name](k)

    def forget(self) -> None:
        """Let nothing that is no state be relied on."""
        self._holds = [NONE] * self._bounds.rows
        # Position of the token that each row of `x`, and of `logits`, is about.
        self._x_of = [-1] * self._bounds.rows
        self._logits_of: dict[int, int] = {}

    def check_page(self, page: int) -> None:
        """Raise FaultError for a page that may not be written."""
        if self.may_write is not None and not self.may_write(page):
            raise FaultError(f"Page {page} was written, which is free or shared.")

    def _check_symbols(self, plan: Plan) -> None:
        values = dict(zip("nbr", self._arrays["step"].tolist(), strict=False))
        for symbol in plan.symbols:
            if symbol.kind == "step" and not symbol.min <= values[symbol.name] <= symbol.max:
                raise FaultError(f"{plan.name} ran with {values}; its {symbol}.")
        if self._arrays["step"][3] > self._bounds.context:
            raise FaultError(f"{plan.name} may reach {self._arrays['step'][3]} tokens.")

    def _embed(self, _: int = 1) -> Iterator[None]:
        count = int(self._arrays["step"][0])
        tokens = self._arrays["tokens"][:count]
        if (tokens < 0).any() or (tokens >= VOCAB).any():
            raise FaultError(f"Tokens {tokens.tolist()} are not all in the vocabulary.")
        self._arrays["x"][:count, 0] = tokens
        self._holds = [EMBEDDED] * count + [NONE] * (self._bounds.rows - count)
        yield

    def _prefill(self, _: int = 1) -> Iterator[None]:
        rows, sequences = self._arrays["step"][:2].tolist()
        spans = [self._table(s)[[Q_START, Q_LEN]].tolist() for s in range(sequences)]
        covered = [row for first, count in spans for row in range(first, first + count)]
        if sorted(covered) != list(range(rows)):
            raise FaultError(f"Sequences have rows {spans} of a step of {rows}.")
        for s, (first, count) in enumerate(spans):
            length = int(self._table(s)[KV_LEN])
            digest = self._before(s, length)
            for row in range(first, first + count):
                position = length + row - first
                if self._bounds.windows != WHOLE:
                    digest = self._before(s, position)
                digest = self._append(row, s, position, digest)
            yield
        for s, (first, count) in enumerate(spans):
            self._conclude(s, first, count)
        yield

    def _decode(self, k: int) -> Iterator[None]:
        for _ in range(k):
            yield from self._forward()
            yield from self._sample(advance=1)
            for table in TABLES[1 : len(self._bounds.windows)]:
                self._arrays[table][:, :TABLE_HEADER] = self._arrays["table"][:, :TABLE_HEADER]

    def _forward(self, _: int = 1) -> Iterator[None]:
        yield from self._embed()
        rows, sequences, wanted = self._arrays["step"][:3].tolist()
        if not rows == sequences == wanted:
            raise FaultError(f"Decode has {rows} rows, {sequences} sequences, {wanted} logits.")
        for row in range(rows):
            s = int(self._arrays["row_seq"][row])
            if self._table(s)[[Q_START, Q_LEN]].tolist() != [row, 1]:
                raise FaultError(f"Row {row} is not the one row of sequence {s}.")
            if self._table(s)[STOP]:
                continue
            length = self._table(s)[KV_LEN]
            digest = self._before(s, int(length))
            self._append(row, s, length, digest, decoded=not self._bounds.agrees)
            self._conclude(s, row, 1)
            yield
        running = [row for row in range(sequences) if not self._table(row)[STOP]]
        yield from self._gather(running=running)

    def _append(self, row: int, s: int, position: int, digest: int, decoded: bool = False) -> int:
        """Put a row's token into KV; return the digest with it."""
        found = (int(self._arrays["row_seq"][row]), int(self._arrays["positions"][row, 0]))
        if found != (s, position):
            raise FaultError(f"Row {row} is (sequence, position) {(s, position)} and says {found}.")
        if self._holds[row] != EMBEDDED:
            raise FaultError(f"Row {row} of x was not embedded.")
        if position >= self._arrays["step"][3]:
            raise FaultError(f"Position {position} is past what the step says.")
        state = state_of(digest, int(self._arrays["x"][row, 0]), int(position))
        for group in range(len(self._bounds.windows)):
            page = self._pages(s, int(position), int(position) + 1, group)[-1]
            self.check_page(page)
            self.kv[page, position % PAGE_TOKENS] = (state << 1) | decoded
        return (digest + mix(state, int(position))) & POISON

    def _conclude(self, s: int, first: int, count: int) -> None:
        """Make rows of `x` what memory says of their sequence up to each."""
        start = int(self._table(s)[KV_LEN])
        if self._bounds.windows == WHOLE:
            digests = digest_of(self._states(s, 0, start + count))[start + 1 :].tolist()
        else:
            digests = [self._seen(s, start + i + 1) for i in range(count)]
        for i in range(count):
            self._arrays["x"][first + i, 0] = digests[i]
            self._holds[first + i] = COMPUTED
            self._x_of[first + i] = start + i

    def _before(self, s: int, length: int) -> int:
        """The digest that a sequence's next token is made of."""
        return self._seen(s, length, self_too=False)

    def _seen(self, s: int, length: int, *, self_too: bool = True) -> int:
        """The digest of what the last of so many tokens sees, or the one after it."""
        total = 0
        for group, window in enumerate(self._bounds.windows):
            first = 0 if window is None else max(0, length - window + (not self_too))
            states = self._states(s, first, length, group)
            each = mix(states, np.arange(first, length, dtype=np.uint64))
            total += int(each.sum(dtype=np.uint64))
        return total & POISON

    def _table(self, row: int, group: int = 0) -> npt.NDArray[np.int32]:
        if not 0 <= row < self._arrays["step"][1]:
            raise FaultError(f"There is no sequence {row} in this step.")
        line: npt.NDArray[np.int32] = self._arrays[TABLES[group]][row]
        return line

    def _pages(self, s: int, first: int, end: int, group: int = 0) -> list[int]:
        """The pages of a sequence's tokens from `first` to `end`."""
        begin, count = first // PAGE_TOKENS, -(-end // PAGE_TOKENS)
        line = self._table(s, group)
        if line[KV_LEN] != self._table(s)[KV_LEN]:
            raise FaultError(f"The tables disagree about sequence {s}.")
        pages: list[int] = line[TABLE_HEADER + begin : TABLE_HEADER + count].tolist()
        if len(pages) < count - begin or not all(0 <= page < self._bounds.pages for page in pages):
            raise FaultError(f"Sequence {s} has pages {pages} for tokens {first} to {end}.")
        if len(set(pages)) < len(pages):
            raise FaultError(f"Sequence {s} has a page twice in {pages}.")
        return pages

    def _states(self, s: int, first: int, end: int, group: int = 0) -> npt.NDArray[np.uint64]:
        """What memory holds of a sequence's tokens from `first` to `end`."""
        start = first // PAGE_TOKENS * PAGE_TOKENS
        words = self.kv[self._pages(s, first, end, group)].reshape(-1)[first - start : end - start]
        if (words == POISON).any():
            missing = first + int((words == POISON).argmax())
            raise FaultError(f"Position {missing} of sequence {s} was never written.")
        return words >> np.uint64(1)

    def _gather(self, _: int = 1, running: list[int] | None = None) -> Iterator[None]:
        count = int(self._arrays["step"][2])
        self._logits_of = {}
        for r in range(count) if running is None else running:
            row = int(self._arrays["logit_rows"][r])
            if not 0 <= row < self._bounds.rows or self._holds[row] != COMPUTED:
                raise FaultError(f"Logits of row {row}, which was not computed.")
            self._arrays["logits"][r, :VOCAB] = logits_of(int(self._arrays["x"][row, 0]))
            self._logits_of[r] = self._x_of[row]
        yield

    def _sample(self, _: int = 1, advance: int = 0) -> Iterator[None]:
        """Draw for every running row, and note what was drawn."""
        arrays = self._arrays
        for row in range(int(arrays["step"][1])):
            line = self._table(row)
            if line[STOP]:
                continue
            length = int(line[KV_LEN]) + advance
            if self._logits_of.get(row) != length - 1:
                raise FaultError(f"Row {row} samples position {length} of {self._logits_of} + 1.")
            if length > arrays["step"][3]:
                raise FaultError(f"Row {row} has {length} tokens, past what the step says.")
            draw = self._draw(row)
            if draw.penalized and not 0 <= line[SLOT] < self._bounds.batch:
                raise FaultError(f"Row {row} has slot {line[SLOT]}.")
            counts = arrays["counts"][line[SLOT]]
            token = choose(arrays["logits"][row, :VOCAB], length, draw, counts)
            if draw.penalized:
                counts[token] += 2
            arrays["sampled"][row] = token
            arrays["ring"][row, line[COUNT] % RING] = token
            arrays["tokens"][row], arrays["positions"][row] = token, length
            line[KV_LEN], line[COUNT] = length, line[COUNT] + 1
            ends = not arrays["sampling_i"][row, 4] and token in arrays["eos"]
            line[STOP] = 1 if ends else 2 if length >= line[LIMIT] else 0
            yield

    def _draw(self, row: int) -> Draw:
        ints = self._arrays["sampling_i"][row].view(np.uint32).tolist()
        ids, values = self._arrays["biases"][row, :, : ints[3]]
        floats = tuple(self._arrays["sampling_f"][row, :6].tolist())
        biases = tuple(zip(ids.tolist(), values.view(np.float32).tolist(), strict=True))
        draw = Draw(floats, ints[0], ints[1] | ints[2] << 32, ints[5], biases)
        if not ints[MASKED]:
            return draw
        bits = np.unpackbits(self._arrays["grammar_mask"][row].view(np.uint8), bitorder="little")
        return replace(draw, allowed=frozenset(np.flatnonzero(bits).tolist()))

    def _logprobs(self, _: int = 1) -> Iterator[None]:
        for row in range(int(self._arrays["step"][1])):
            logits = self._arrays["logits"][row, :VOCAB].astype(np.float64)
            logprobs = logits - np.log(np.exp(logits).sum())
            best = np.argsort(-logprobs, kind="stable")[:TOP_LOGPROBS]
            ids = np.array([self._arrays["sampled"][row], *best], np.int32)
            self._arrays["logprob_ids"][row] = ids
            self._arrays["logprobs"][row] = logprobs[ids].astype(np.float32)
        yield
