"""An engine on the toy program with everything that has been asked of it, and what must be true."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.pace import Unpaced
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Piece, Request
from edgewise_runtime.engine.sequence import Sequence as Running
from edgewise_runtime.engine.speculate.base import Drafter, DraftView
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.errors import DeviceError, EdgewiseError, EngineError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.kv.holding import GONE
from edgewise_runtime.kv.keys import KeyChain, producer_of, root_key
from edgewise_runtime.kv.spill import DiskStore, MemoryStore, PageStore, Tiered, WriteBehind
from edgewise_runtime.kv.stored import stored_bytes
from edgewise_runtime.kv.windowed import WindowedMemory
from tests.runtime.engine.toy import Failure, ToyProgram
from tests.runtime.engine.toy_bundle import Bounds, tokenizer
from tests.runtime.engine.toy_constraint import Maze
from tests.runtime.engine.toy_kernels import POISON
from tests.runtime.engine.toy_model import (
    VOCAB,
    WHOLE,
    Windows,
    answer,
    digest_after,
    digest_of,
    logits_of,
    mix,
    text_of,
)

PATIENCE = 4000
"""Steps after which what is asked must have been answered."""


@dataclass(frozen=True)
class Setting:
    """What an engine of a world is like.

    Attributes:
        bounds: of its program.
        step_tokens: more than the sequences of a step that its budget is; None for the default.
        share_decoded: as `EngineOptions` has it.
        memory_pages: pages of a store in memory; 0 for none.
        disk_pages: pages of a store on disk beside it; 0 for none.
        drafter: ``none``, ``lookup``, or ``oracle``, which mostly knows what will come.
        max_waiting: requests that may wait for a slot.
        pace: a seed of how much of a step may be prefill; 0 for as much as fits.
        kept: pages that no request needs which are kept for the next ones; None for all.
    """

    bounds: Bounds
    step_tokens: int | None = None
    share_decoded: bool = False
    memory_pages: int = 0
    disk_pages: int = 0
    drafter: str = "none"
    max_waiting: int = 1024
    pace: int = 0
    kept: int | None = None


@dataclass(eq=False)
class Asked:
    """One choice of a request: how the engine runs it, and what it has said so far.

    Attributes:
        shortened: prompts it went on with where the context was full.
    """

    sequence: Running
    pieces: list[Piece] = field(default_factory=list)
    ends: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    shortened: list[tuple[int, ...]] = field(default_factory=list)

    def end(self) -> None:
        """Take in that it has ended."""
        self.ends += 1
        self.ended.set()

    def hear(self, piece: Piece) -> None:
        """Take in what a step added to it."""
        self.pieces.append(piece)
        prompt = tuple(self.sequence.known[: self.sequence.prompt_len])
        if prompt != (self.shortened or [self.sequence.request.prompt])[-1]:
            self.shortened.append(prompt)


class DrawnPace:
    """Lets any number of prompt tokens into a step, and now and then none."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def tokens(self, most: int, *_: int) -> int:
        self._state = mix(self._state, 1)
        return 0 if self._state % 5 == 0 else 1 + self._state % max(most, 1)

    def burst(self) -> int:
        return (8, 64)[self._state % 2]

    def observe(self, prefill_tokens: int, prefill_s: float, decode_s: float) -> None:
        """Time plays no part in tests."""


class Oracle:
    """A drafter that knows the answer, and is wrong now and then.

    Attributes:
        open: keys of the sequences it has seen and not forgotten.
    """

    cost = 0.2

    def __init__(self) -> None:
        self.open: set[int] = set()

    def propose_all(self, wanted: Sequence[tuple[DraftView, int]]) -> list[tuple[int, ...]]:
        return [self.propose(sequence, k) for sequence, k in wanted]

    def propose(self, sequence: DraftView, k: int) -> tuple[int, ...]:
        self.open.add(sequence.key)
        known = list(sequence.tokens)
        following = answer(
            known,
            SamplingParams(
                max_tokens=k,
                temperature=sequence.params.temperature,
                top_p=sequence.params.top_p,
                ignore_eos=True,
                logit_bias=sequence.params.logit_bias,
            ),
            context=len(known) + k,
            seed=sequence.seed,
            number=sequence.index,
        ).tokens
        wrong = mix(len(known), sequence.seed) % 8
        return tuple((t + (i == wrong)) % VOCAB for i, t in enumerate(following))

    def forget(self, key: int) -> None:
        self.open.discard(key)

    def close(self) -> None:
        self.open.clear()


class World:
    """An engine, what was asked of it, and the folder of its store on disk."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting = setting
        self.asked: list[Asked] = []
        self.failures = 0
        self.steps = 0
        self._folder = folder
        self._judged: set[Asked] = set()
        self.start()

    def start(self) -> None:
        """Begin with a fresh program and engine."""
        self._submitted = 0
        self.pinned: dict[tuple[int, ...], Running | int] = {}
        setting = self.setting
        self.program = ToyProgram(setting.bounds)
        drafters: dict[str, Callable[[], Drafter | None]] = {
            "none": lambda: None,
            "lookup": PromptLookup,
            "oracle": Oracle,
        }
        self._drafter = drafters[setting.drafter]()
        self._store = self._made_store()
        tokens = setting.step_tokens
        options = EngineOptions(
            step_tokens=None if tokens is None else setting.bounds.batch + tokens,
            max_waiting=setting.max_waiting,
            share_decoded=setting.share_decoded,
            pace=DrawnPace(setting.pace) if setting.pace else Unpaced(),
            store=self._store,
            kept_bytes=None if setting.kept is None else setting.kept * self.program.page_bytes,
            drafter=self._drafter,
        )
        self.engine = GenerationEngine(
            self.program,
            tokenizer(),
            pages=setting.bounds.pages,
            context=setting.bounds.context,
            options=options,
        )
        self.scheduler = self.engine._scheduler
        self.memory = self.scheduler.memory
        self._root = root_key(self.program.bundle, self.program.program)
        pool = self.memory._stock.pool
        self.program.guard(lambda page: pool.owners(page) == 1)

    def make(self, request: Request) -> list[Asked]:
        """The choices of a request, to be submitted."""
        made = self.engine.sequences(request)
        assert len({sequence.seed for sequence in made}) == 1
        # A run can be told again only if nothing is drawn at random.
        seed = mix(len(self.asked), 1) if request.params.seed is None else request.params.seed
        choices = []
        for sequence in made:
            sequence.seed = seed
            asked = Asked(sequence)
            sequence.on_piece = asked.hear
            sequence.on_end = asked.end
            choices.append(asked)
        return choices

    def ask(self, request: Request) -> None:
        """Submit a request, unless too many wait."""
        choices = self.make(request)
        sequences = [asked.sequence for asked in choices]
        waiting = len(self.scheduler.waiting)
        free = self.setting.bounds.batch - len(self.scheduler.running)
        if waiting + len(choices) <= self.setting.max_waiting + free:
            self.asked += choices
            self.engine.submit(sequences)
            self._submitted += len(choices)
            return
        with pytest.raises(EngineError, match="waiting already"):
            self.engine.submit(sequences)
        assert len(self.scheduler.waiting) == waiting

    def step(self) -> None:
        """Take one step, on another program if the device is lost."""
        self.steps += 1
        before = {asked.sequence: (asked, len(asked.pieces)) for asked in self.open}
        lost: DeviceError | None = None
        said: list[tuple[Running, Piece]] = []
        try:
            said = self.engine.step()
            if not self.engine.busy:
                self.engine.tidy()
        except DeviceError as error:
            lost = error
        for sequence, piece in said:
            if sequence in before:
                asked, count = before[sequence]
                assert any(piece is one for one in asked.pieces[count:])
        if self._store is not None:
            # A run can be told again only if it does not matter how fast the disk is.
            self._store.wait()
        self._settle_pins()
        self._poison()
        if lost is not None:
            assert lost.code == "device.lost"
            assert self.failures
            assert not self.engine.busy
            assert not self.open
            self.check()
            self.engine.close()
            self.start()

    @property
    def _windows(self) -> Windows:
        return self.setting.bounds.windows

    @property
    def open(self) -> list[Asked]:
        """What has not ended yet."""
        return [asked for asked in self.asked if not asked.sequence.ended]

    def fail(self, failure: Failure) -> None:
        """Let a later call of the device fail."""
        self.failures += 1
        self.program.fail(failure)

    def pin(self, tokens: tuple[int, ...]) -> None:
        """Have a prefix computed, to be pinned when it is."""
        if tokens not in self.pinned:
            sequence = self.engine.pin(tokens)
            self.engine.submit([sequence])
            self._submitted += 1
            self.pinned[tokens] = sequence

    def unpin(self, tokens: tuple[int, ...]) -> None:
        """Unpin a prefix that has been pinned."""
        if isinstance(self.pinned.get(tokens), int):
            self.engine.unpin(tokens)
            del self.pinned[tokens]

    def score(self, tokens: Sequence[int]) -> None:
        """Score a text, which takes pages from what is kept."""
        try:
            logits = self.engine.score(tokens)
        except EdgewiseError as error:
            self._judge_refusal(error)
        else:
            expected = [
                logits_of(digest_after(tokens[: i + 1], self._windows)) for i in range(len(tokens))
            ]
            assert np.array_equal(logits, np.array(expected))

    def reload(self) -> None:
        """Close the engine and begin again, with what its store on disk has kept."""
        self.engine.close()
        assert not self.open
        self.check()
        self.start()

    def check(self) -> None:
        """Nothing is inconsistent, and whatever has ended ended rightly."""
        assert self.engine.check() == []
        # What has to be stored first goes little by little.
        assert self._store is not None or self.memory.idle <= self.memory.keep
        if not any(sequence.rewound for sequence in self.scheduler.running):
            assert self.engine._account._pages() == self._pages()
        for sequence in () if self.program.failing else self.scheduler.running:
            self._check_written(sequence)
        for tokens, there in self.pinned.items():
            if isinstance(there, int) and not self.failures:
                assert len(self.memory.keys_of(KeyChain(self._root), tokens)) * PAGE_TOKENS >= there
        for asked in self.asked:
            if asked.sequence.ended and asked not in self._judged:
                self.judge(asked)
                self._judged.add(asked)

    def seen(self) -> set[str]:
        """What happens to the turns of those that wait and run."""
        scheduler = self.scheduler
        turns = [sequence.turn for sequence in (*scheduler.waiting, *scheduler.running)]
        found = {
            "passed": any(turn.yielded for turn in turns),
            "its turn has come": any(turn.come for turn in turns),
            "waits for pages": any(turn.awaits for turn in turns),
        }
        return {what for what, happens in found.items() if happens}

    def finish(self) -> None:
        """Let everything come to its end; nothing is left over."""
        self.program.fail(Failure(calls=1 << 60))
        for _ in range(PATIENCE):
            if not self.engine.busy:
                break
            self.step()
            self.check()
        assert not self.engine.busy
        assert not self.open
        assert not isinstance(self._drafter, Oracle) or not self._drafter.open
        assert self.memory.free + self.memory.kept == self.setting.bounds.pages
        while self.engine.tidy():
            pass
        told = self.engine.metrics.snapshot()
        kept = told["prefix_cache_bytes"] // self.program.page_bytes
        assert kept == self.memory.idle <= self.memory.keep
        assert self.setting.kept is None or self.memory.keep <= self.setting.kept
        assert sum(told["request_success_total"].values()) == self._submitted
        names = ("num_requests_running", "num_requests_waiting", "kv_pages_used", "kv_tokens")
        assert [told[name] for name in names] == [0, 0, 0, 0]
        for tokens in list(self.pinned):
            self.unpin(tokens)
        self.engine.forget()
        assert (self.memory.free, self.memory.kept) == (self.setting.bounds.pages, 0)
        assert self.engine.check() == []
        self.engine.close()
        self.engine.close()
        self.program.close()

    def _poison(self) -> None:
        """Whoever reads a page that was given back notices."""
        if isinstance(self.memory, WindowedMemory) and not self.program.failing:
            pool = self.memory._stock.pool
            free = [page for page in range(len(pool)) if not pool.owners(page)]
            self.program._kv[free] = POISON

    def _settle_pins(self) -> None:
        """Pin what has been computed."""
        for tokens, sequence in list(self.pinned.items()):
            if isinstance(sequence, Running) and sequence.ended:
                del self.pinned[tokens]
                if sequence.failure is None:
                    there = self.engine.pinned(tokens)
                    assert 0 <= there <= len(tokens)
                    self.pinned[tokens] = there

    def _made_store(self) -> PageStore | None:
        setting = self.setting
        size = stored_bytes(PAGE_TOKENS, self.program.page_bytes)
        if not setting.memory_pages:
            return None
        memory = MemoryStore(setting.memory_pages * size)
        if not setting.disk_pages:
            return memory
        producer = producer_of(self.program.bundle, self.program.program)
        # Files have a header of their own.
        limit = setting.disk_pages * (size + 128)
        return Tiered(memory, WriteBehind(DiskStore(self._folder, limit, producer, size)))

    def _pages(self) -> tuple[int, int]:
        """Pages that sequences hold and the tokens in them, one by one."""
        tokens: dict[int, int] = {}
        for sequence in self.scheduler.running:
            holding = sequence.holding
            for row in holding.rows if holding else ():
                for nth, page in enumerate(row):
                    here = min(max(sequence.computed - nth * PAGE_TOKENS, 0), PAGE_TOKENS)
                    if page != GONE:
                        tokens[page] = max(here, tokens.get(page, 0))
        return len(tokens), sum(tokens.values())

    def _check_written(self, sequence: Running) -> None:
        """The pages of a running sequence hold its tokens, and prefill wrote what it should."""
        count = min(sequence.computed, len(sequence.known))
        if sequence.holding is None or sequence.rewound or not count:
            return
        pages = sequence.holding.pages
        if self._windows == WHOLE:
            words = self.program._kv[pages].reshape(-1)[:count]
            digests = digest_of(words >> np.uint64(1))
            assert int(digests[-1]) == digest_after(sequence.known[:count])
        there = [self.program.decoded(page) & (page != GONE) for page in pages]
        decoded = np.concatenate(there)[:count]
        if not self.setting.share_decoded:
            found = sequence.holding.found
            assert self.setting.bounds.agrees or found.exact == found.total
            assert not decoded[: min(sequence.prompt_len, count)].any()
        assert not decoded[: sequence.exact].any()
        assert 0 <= sequence.exact <= sequence.computed <= len(pages) * PAGE_TOKENS

    def judge(self, asked: Asked) -> None:
        """What came of a request is what it alone decides, as far as it got."""
        sequence = asked.sequence
        assert asked.ends == 1
        completion = sequence.completion()
        tokens, reason = completion.token_ids, completion.finish_reason
        assert tokens == tuple(t for piece in asked.pieces for t in piece.token_ids)
        text = "".join(piece.text for piece in asked.pieces)
        assert completion.text == text
        maze = sequence.request.constraint
        assert maze is None or isinstance(maze, Maze)
        expected = answer(
            sequence.request.prompt,
            sequence.params,
            context=self.engine.context,
            seed=sequence.seed,
            number=sequence.index,
            eos=self.setting.bounds.eos,
            shortened=asked.shortened,
            maze=maze,
            windows=self._windows,
        )
        assert tokens == expected.tokens[: len(tokens)]
        if sequence.params.logprobs:
            self._judge_logprobs(sequence, expected.digests)
        if reason in ("stop", "length"):
            assert (tokens, text, reason) == (
                expected.tokens,
                expected.text,
                expected.finish_reason,
            )
        elif reason == "error":
            assert sequence.failure is not None
            if sequence.failure.code == "engine.context":
                assert expected.finish_reason == "length"
            elif sequence.failure.code == "engine.constraint":
                assert maze is not None
                assert f"room {maze.broken} is broken" in str(sequence.failure)
            else:
                self._judge_refusal(sequence.failure)
        else:
            assert reason in ("cancelled", "timeout")
            assert text == text_of(tokens)

    def _judge_refusal(self, error: EdgewiseError) -> None:
        if error.code != "engine.memory":
            assert error.code in ("device.lost", "device.kernel"), error
            assert self.failures

    def _judge_logprobs(self, sequence: Running, digests: tuple[int, ...]) -> None:
        said = sequence.logprobs
        assert len(said) == len(sequence.tokens)
        for one, token, digest in zip(said, sequence.tokens, digests, strict=False):
            logits = logits_of(digest).astype(np.float64)
            logprobs = logits - np.log(np.exp(logits).sum())
            best = np.argsort(-logprobs, kind="stable")[: sequence.params.top_logprobs]
            assert one.token_id == token
            assert abs(one.logprob - logprobs[token]) < 1e-5
            assert [found for found, _ in one.top] == best.tolist()
