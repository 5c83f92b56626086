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
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, sleep

from edgewise import Engine
from edgewise.generation import Generation
from edgewise_runtime.engine.trace import Trace
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state
from protocol import Answer, listen, token_at
from streams import Arrival, Ask, Held, Stream, kv_use, mixed, together, under_prefill, whole

GLANCE = 0.01  # seconds between looks at how far streams are


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

    def read(self) -> Stream:
        """What came, once all has; what went wrong otherwise."""
        self.join()
        if self._failure is not None:
            raise self._failure
        return self.stream


class Edgewise:
    """One engine, and prompts that it has never seen."""

    def __init__(self, engine: Engine, page_tokens: int) -> None:
        self._engine = engine
        self._page_tokens = page_tokens
        self._asked = count()

    def clients(self, clients: int, prompt: int, tokens: int) -> Answer:
        """Clients that ask together, each for its own prompt."""
        return together(self._all([Ask(prompt, tokens)] * clients))

    def prefix(self, shared: int, new: int) -> Answer:
        """A prompt of ``shared + new`` tokens, and another that shares all but its last ``new``."""
        begin = self._prompt(shared)
        cold_s, warm_s = (_ttft(self._ask([*begin, *self._prompt(new)], 1)) for _ in range(2))
        return {"cold_s": cold_s, "warm_s": warm_s, "warm_over_cold": warm_s / cold_s}

    def long_prompt(self, streams: int, prompt: int, tokens: int, long: int) -> Answer:
        """A prompt of ``long`` tokens by itself, and another that comes in while others stream.

        It comes once every stream has had twice ``tokens`` tokens, the second half of which is
        the time without it.
        """
        alone_s = _ttft(self._ask(self._prompt(long), 1))
        room = self._engine.context - prompt
        running = [self._ask(self._prompt(prompt), room) for _ in range(streams)]
        try:
            _until(lambda: all(client.stream.tokens >= 2 * tokens for client in running))
            come = self._ask(self._prompt(long), 1).read()
        finally:
            for client in running:
                client.generation.cancel()
        read = [client.read() for client in running]
        answer = under_prefill(read, max(stream.reached(tokens) for stream in read), come)
        share = answer["ttft_s"] / alone_s
        return {**answer, "alone_ttft_s": alone_s, "ttft_under_prefill": share}

    def mixed(self, requests: int, seed: int) -> Answer:
        """Requests of mixed lengths, all at once, and how much of the KV memory held tokens."""
        with TemporaryDirectory() as folder, self._engine.trace(Path(folder) / "trace") as trace:
            streams = self._all(mixed(requests, seed, self._engine.context // 4))
        return {**whole(streams), **kv_use(_held(trace, self._page_tokens), self._engine.context)}

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


def _ttft(client: Client) -> float:
    """Seconds to the first token."""
    stream = client.read()
    return stream.first - stream.asked


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
    with Engine(args.bundle, device="cpu", threads=args.threads) as engine:
        edgewise = Edgewise(engine, paged_state(manifest).page_tokens)
        about = {
            "engine": "edgewise",
            "version": version("edgewise"),
            "program": engine.program,
        }
        questions: dict[str, Callable[..., Answer]] = {
            "clients": edgewise.clients,
            "prefix": edgewise.prefix,
            "long_prompt": edgewise.long_prompt,
            "mixed": edgewise.mixed,
        }
        listen(about, questions)


if __name__ == "__main__":
    main()
