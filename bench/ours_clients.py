"""edgewise behind the questions of ``bench/engine.py``: its public engine, streamed by threads.

python ours_clients.py BUNDLE --threads 2
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import accumulate, count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, sleep

from edgewise import Engine
from edgewise.generation import Generation
from edgewise_runtime.engine.trace import Trace
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state
from host_time import ENGINE, HostTime
from protocol import Answer, listen, token_at
from streams import (
    Arrival,
    Ask,
    Held,
    Stream,
    behind_long,
    kv_use,
    longest_gap,
    mixed,
    together,
    under_prefill,
    whole,
)

GLANCE = 0.01  # seconds between looks at how far streams are
ALONE = 5  # short prompts that come one after another
FILLER = 512  # tokens at most of each prompt that fills the KV memory
NEARLY = 0.95  # of the bytes that may be kept: what is beyond goes by whole pages
PAIRS = 5  # short and long answers that are compared in turn


class Client(Thread):
    """Reads a stream to its end, noting when each piece came."""

    def __init__(self, submit: Callable[[], Generation]) -> None:
        super().__init__(daemon=True)
        self.stream = Stream(perf_counter())
        self.generation = submit()
        self._failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for piece in self.generation:
                if piece.token_ids:
                    self.stream.arrivals.append(Arrival(perf_counter(), len(piece.token_ids)))
        except BaseException as error:
            self._failure = error

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return not self.is_alive()

    def read(self) -> Stream:
        """What came, once all has; what went wrong otherwise."""
        self.join()
        if self._failure is not None:
            raise self._failure
        return self.stream


class Edgewise:
    """One engine, loaded while `host` was watching, and prompts that it has never seen."""

    def __init__(self, engine: Engine, page_tokens: int, host: HostTime) -> None:
        self._engine = engine
        self._page_tokens = page_tokens
        self._host = host
        self._asked = count()

    def clients(self, clients: int, prompt: int, tokens: int) -> Answer:
        """Clients that ask together, each for its own prompt."""
        return together(self._all([Ask(prompt, tokens)] * clients))

    def prefix(self, shared: int, new: int) -> Answer:
        """A prompt of ``shared + new`` tokens, and another that shares all but its last ``new``."""
        begin = self._prompt(shared)
        cold, warm = (self._ask([*begin, *self._prompt(new)], 1).read() for _ in range(2))
        cold_s, warm_s = cold.ttft, warm.ttft
        return {"cold_s": cold_s, "warm_s": warm_s, "warm_over_cold": warm_s / cold_s}

    def short_behind_long(self, short: int, long: int) -> Answer:
        """Prompts of ``short`` tokens, one after another while one of ``long`` is computed, and
        both kinds alone.

        The first comes when the long one has had a step, each other a moment after the first token
        of the one before, when a step has begun. ``short_steps`` counts that step, too.
        """
        alone = [self._one(short) for _ in range(ALONE)]
        long_alone = self._one(long)
        computed = self._counted("prefill_tokens_total")
        come = self._ask(self._prompt(long), 1)
        _until(lambda: come.ended or self._counted("prefill_tokens_total") > computed)
        behind: list[Stream] = []
        steps: list[int] = []
        while not behind or not come.ended:
            before = self._counted("steps_total")
            behind.append(self._one(short))
            steps.append(self._counted("steps_total") - before)
            sleep(GLANCE)
        answer = behind_long(alone, behind, long_alone, come.read())
        return {**answer, "short_steps": float(max(steps))}

    def long_prompt(self, streams: int, prompt: int, tokens: int, long: int) -> Answer:
        """A prompt of ``long`` tokens by itself, and another that comes in while others stream."""
        alone_s = self._one(long).ttft
        read, come = self._joined(streams, prompt, tokens, long)
        answer = under_prefill(read, max(stream.reached(tokens) for stream in read), come)
        share = answer["ttft_s"] / alone_s
        return {**answer, "alone_ttft_s": alone_s, "ttft_under_prefill": share}

    def evict(self, streams: int, prompt: int, tokens: int, long: int) -> Answer:
        """A prompt of ``long`` tokens that comes in while others stream, where the KV memory is
        full of earlier ones, and the longest that a stream waits for a token, until each has had
        ``tokens`` after that prompt's first one: pages may also be given up as it ends."""
        self._fill()
        read, come = self._joined(streams, prompt, tokens, long)
        end = max(come.first, min(stream.last for stream in read))
        stall_s = longest_gap(read, come.asked, end)
        return {"seconds": come.ttft, "ttft_s": come.ttft, "evict_stall_ms": 1e3 * stall_s}

    def host(self, clients: int, prompt: int, few: int, many: int) -> Answer:
        """Processor time beside kernels for each token of an answer after the first ``few``.

        It is what answers of ``many`` tokens take more than those of ``few``, so that neither
        prompts nor the short bursts that an answer begins with are in it: of the engine's thread,
        and of all threads of the engine. Medians of some pairs, in a KV memory that is full.
        """
        self._fill()
        pairs = [
            [self._host_s([Ask(prompt, tokens)] * clients) for tokens in (few, many)]
            for _ in range(PAIRS)
        ]
        us = 1e6 / (clients * (many - few))
        return {
            f"{name}_us_per_token": us
            * median(after[name] - before[name] for before, after in pairs)
            for name in ("host", "threads")
        }

    def mixed(self, requests: int, seed: int) -> Answer:
        """Requests of mixed lengths, all at once, and how much of the KV memory held tokens."""
        with TemporaryDirectory() as folder, self._engine.trace(Path(folder) / "trace") as trace:
            streams = self._all(mixed(requests, seed, self._engine.context // 4))
        return {**whole(streams), **kv_use(_held(trace, self._page_tokens), self._engine.context)}

    def _joined(
        self, streams: int, prompt: int, tokens: int, long: int
    ) -> tuple[list[Stream], Stream]:
        """Clients that stream, and a prompt of ``long`` tokens that comes in.

        It comes once every stream has had twice ``tokens`` tokens, the second half of which is
        the time without it. They go on for as many after its first one.
        """
        room = self._engine.context - prompt
        running = [self._ask(self._prompt(prompt), room) for _ in range(streams)]
        try:
            _until(lambda: all(c.stream.tokens >= 2 * tokens or c.ended for c in running))
            come = self._one(long)
            enough = [client.stream.tokens + tokens for client in running]
            _until(
                lambda: all(
                    c.stream.tokens >= n or c.ended for c, n in zip(running, enough, strict=True)
                )
            )
        finally:
            for client in running:
                client.generation.cancel()
        return [client.read() for client in running], come

    def _fill(self) -> None:
        """Prompts until the KV memory keeps of earlier ones what it can, or may."""
        prompt = min(FILLER, self._engine.context // 2)
        self._one(prompt)  # pages are counted from the first step on
        while not self._full():
            self._one(prompt)

    def _full(self) -> bool:
        """Whether there have been as many tokens of prompts as there is room for, or as many bytes
        of them are kept as may be: engines before that had a bound do not tell of it."""
        now = self._engine.metrics()
        kept, most = (now.get(f"prefix_cache_{name}", 0) for name in ("bytes", "limit_bytes"))
        room = now["kv_pages"] * self._page_tokens
        bounded = 0 < NEARLY * most <= kept
        return bool(bounded or now["prompt_tokens_total"] >= room)

    def _host_s(self, asks: Sequence[Ask]) -> dict[str, float]:
        """Seconds beside kernels of the engine's thread and of all of its threads."""
        before = self._host.seconds(ENGINE), self._host.seconds()
        self._all(asks)
        sleep(GLANCE)  # the last step has answered, but may not be over
        after = self._host.seconds(ENGINE), self._host.seconds()
        return {"host": after[0] - before[0], "threads": after[1] - before[1]}

    def _counted(self, name: str) -> int:
        """A counter or gauge of the engine."""
        number: int = self._engine.metrics()[name]
        return number

    def _one(self, prompt: int) -> Stream:
        """What came for a prompt of so many tokens and an answer of one."""
        return self._ask(self._prompt(prompt), 1).read()

    def _all(self, asks: Sequence[Ask]) -> list[Stream]:
        """The streams of clients that ask at once."""
        clients = [self._ask(self._prompt(ask.prompt), ask.tokens) for ask in asks]
        return [client.read() for client in clients]

    def _ask(self, prompt: list[int], tokens: int) -> Client:
        submit = self._engine.submit
        return Client(lambda: submit(prompt, max_tokens=tokens, temperature=0.0, ignore_eos=True))

    def _prompt(self, tokens: int) -> list[int]:
        """One whose beginning no other has."""
        salt, vocab = next(self._asked), self._engine.model.vocab
        return [token_at(i, salt, vocab) for i in range(tokens)]


def _held(trace: Trace, page_tokens: int) -> list[Held]:
    """What was in the KV memory at the end of every step of a trace, and for how many sequences."""
    events = trace.to_json()["traceEvents"]
    running = {"prefill", "decode"}
    edges = [e for e in events if e["ph"] in "be" and e["name"] in running]
    times = [edge["ts"] for edge in edges]
    counts = [0, *accumulate(1 if edge["ph"] == "b" else -1 for edge in edges)]
    return [
        Held(
            live=step["args"]["kv_tokens"],
            allocated=step["args"]["pages_used"] * page_tokens,
            sequences=counts[bisect_right(times, step["ts"] + step["dur"])],
        )
        for step in events
        if step["ph"] == "X"
    ]


def _until(done: Callable[[], bool]) -> None:
    while not done():
        sleep(GLANCE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    manifest = Bundle.open(args.bundle, verify=False).manifest
    host = HostTime()
    with host.watching(), Engine(args.bundle, device="cpu", threads=args.threads) as engine:
        edgewise = Edgewise(engine, paged_state(manifest).page_tokens, host)
        about = {
            "engine": "edgewise",
            "version": version("edgewise"),
            "program": engine.program,
        }
        asked: Sequence[Callable[..., Answer]] = (
            edgewise.clients,
            edgewise.prefix,
            edgewise.short_behind_long,
            edgewise.long_prompt,
            edgewise.evict,
            edgewise.host,
            edgewise.mixed,
        )
        listen(about, {question.__name__: question for question in asked})


if __name__ == "__main__":
    main()
