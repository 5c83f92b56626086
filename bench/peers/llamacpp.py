"""llama.cpp behind the benchmark's protocol, through llama-cpp-python's low-level API.

    llamacpp.py MODEL.gguf --threads 2 [--cold | --clients]
    llamacpp.py --quantize TYPE [--pure] FROM.gguf TO.gguf

Runs in the virtual environment of the peer.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple

import llama_cpp

from protocol import Answer, cold, listen, serve, token_at
from streams import Arrival, Stream, behind_long, together

UBATCH = 512  # llama.cpp's default: most tokens computed at once
BATCH = 2048  # and the most of one call, which computes them in pieces of UBATCH
CAPACITY = {1: 2304}  # tokens a sequence may grow to, by the number of sequences
CAPACITY_OF_MANY = 512
CAPACITY_BEHIND = {2: 9216}  # where one of two prompts is long
ALONE = 5  # short prompts that come one after another


class Row(NamedTuple):
    token: int
    position: int
    sequence: int
    logits: bool


class LlamaCpp:
    """A model, and a context for every number of sequences that was asked for.

    ``capacity`` is as `CAPACITY`.
    """

    def __init__(self, model: Any, threads: int, capacity: Mapping[int, int] = CAPACITY) -> None:
        self._model, self._threads, self._capacity = model, threads, capacity
        vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._tokens: int = llama_cpp.llama_vocab_n_tokens(vocab)
        self._greedy = llama_cpp.llama_sampler_init_greedy()
        self._contexts: dict[int, Any] = {}
        self._filled: dict[int, int] = {}  # tokens that every sequence of a context begins with
        self._batch = 0
        self._asked = count()

    def prefill(self, tokens: int) -> None:
        self._clear(1)
        self._fill(1, 0, tokens)

    def prepare(self, batch: int, context: int) -> None:
        if self._filled.get(batch) != context:
            self._clear(batch)
            for sequence in range(batch):
                self._fill(batch, sequence, context)
        self._batch, self._filled[batch] = batch, context
        memory, last = llama_cpp.llama_get_memory(self._context(batch)), context - 1
        for sequence in range(batch):
            llama_cpp.llama_memory_seq_rm(memory, sequence, last, -1)
        self._run(batch, [Row(self._token(last, s), last, s, True) for s in range(batch)])

    def decode(self, steps: int) -> None:
        batch, start = self._batch, self._filled[self._batch]
        for position in range(start, start + steps):
            tokens = self._draw(batch, range(batch))
            self._run(batch, [Row(t, position, s, True) for s, t in enumerate(tokens)])

    def clients(self, clients: int, prompt: int, tokens: int) -> Answer:
        """Clients that ask together: all prompts in one batch, then one batch a step.

        What a server with a slot for each does at best: no client waits for another's prompt to
        be done before its own begins, and none decodes before all do.
        """
        self._clear(clients)
        asked = [next(self._asked) for _ in range(clients)]
        streams = [Stream(perf_counter()) for _ in asked]
        prompts = [self._rows(salt, s, 0, prompt) for s, salt in enumerate(asked)]
        self._run(clients, [row for rows in prompts for row in rows])
        rows = [prompt * (s + 1) - 1 for s in range(clients)]
        for position in range(prompt, prompt + tokens):
            drawn = self._draw(clients, rows)
            now = perf_counter()
            for stream in streams:
                stream.arrivals.append(Arrival(now, 1))
            if position < prompt + tokens - 1:
                self._run(clients, [Row(t, position, s, True) for s, t in enumerate(drawn)])
                rows = list(range(clients))
        return together(streams)

    def prefix(self, shared: int, new: int) -> Answer:
        """A prompt of ``shared + new`` tokens, and another that shares all but its last ``new``.

        The second keeps the first one's KV up to where they part, as a server's prompt cache does.
        """
        self._clear(1)
        first, second = next(self._asked), next(self._asked)
        begun = perf_counter()
        self._run(1, self._rows(first, 0, 0, shared + new))
        self._draw(1, [-1])
        cold_s = perf_counter() - begun
        begun = perf_counter()
        llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self._context(1)), 0, shared, -1)
        self._run(1, self._rows(second, 0, shared, shared + new))
        self._draw(1, [-1])
        warm_s = perf_counter() - begun
        return {"cold_s": cold_s, "warm_s": warm_s, "warm_over_cold": warm_s / cold_s}

    def short_behind_long(self, short: int, long: int) -> Answer:
        """Prompts of ``short`` tokens, one after another while one of ``long`` is computed, and
        both kinds alone.

        A short one comes when a batch of the long one has just begun, and has its tokens in the
        next, in front: no sooner can a server answer it. Batches are as small as llama.cpp computes
        at once by default, so that the wait for them is short. Wants `CAPACITY_BEHIND`.
        """
        alone = [self._one(short) for _ in range(ALONE)]
        long_alone = self._one(long)
        self._clear(2)
        left: Sequence[Row] = self._rows(next(self._asked), 0, 0, long)
        come = Stream(perf_counter())
        behind: list[Stream] = []
        while left:
            asked = Stream(perf_counter())
            left = self._step(left)
            if left:
                left = self._step(left, self._rows(next(self._asked), 1, 0, short))
                self._draw(2, [short - 1])
                asked.arrivals.append(Arrival(perf_counter(), 1))
                memory = llama_cpp.llama_get_memory(self._context(2))
                llama_cpp.llama_memory_seq_rm(memory, 1, 0, -1)
                behind.append(asked)
        self._draw(2, [-1])
        come.arrivals.append(Arrival(perf_counter(), 1))
        return behind_long(alone, behind, long_alone, come)

    def _one(self, prompt: int) -> Stream:
        """The first token of a prompt that is alone in the context of two."""
        self._clear(2)
        left: Sequence[Row] = self._rows(next(self._asked), 0, 0, prompt)
        stream = Stream(perf_counter())
        while left:
            left = self._step(left)
        self._draw(2, [-1])
        stream.arrivals.append(Arrival(perf_counter(), 1))
        return stream

    def _step(self, rows: Sequence[Row], front: Sequence[Row] = ()) -> Sequence[Row]:
        """Runs as many of these rows as fit behind those in front; the rest of them."""
        room = UBATCH - len(front)
        self._run(2, [*front, *rows[:room]])
        return rows[room:]

    def _token(self, position: int, sequence: int) -> int:
        return token_at(position, sequence, self._tokens)

    def _clear(self, batch: int) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context(batch)), True)
        self._filled[batch] = 0

    def _context(self, batch: int) -> Any:
        if batch not in self._contexts:
            params = llama_cpp.llama_context_default_params()
            params.n_ctx = batch * self._capacity.get(batch, CAPACITY_OF_MANY)
            params.n_batch, params.n_ubatch, params.n_seq_max = BATCH, UBATCH, batch
            params.n_threads = params.n_threads_batch = self._threads
            if hasattr(params, "kv_unified"):
                params.kv_unified = False
            self._contexts[batch] = llama_cpp.llama_init_from_model(self._model, params)
        return self._contexts[batch]

    def _fill(self, batch: int, sequence: int, tokens: int) -> None:
        rows = [Row(self._token(i, sequence), i, sequence, i == tokens - 1) for i in range(tokens)]
        for start in range(0, tokens, UBATCH):
            self._run(batch, rows[start : start + UBATCH])

    def _rows(self, salt: int, sequence: int, start: int, stop: int) -> list[Row]:
        """Tokens `start` to `stop` of a prompt, all of which go into one batch."""
        return [Row(self._token(i, salt), i, sequence, i == stop - 1) for i in range(start, stop)]

    def _draw(self, batch: int, rows: Iterable[int]) -> list[int]:
        """The likeliest token after each of these rows of the last batch; -1 is its last one."""
        context = self._context(batch)
        return [llama_cpp.llama_sampler_sample(self._greedy, context, row) for row in rows]

    def _run(self, sequences: int, rows: Sequence[Row]) -> None:
        batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for i, row in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = row.token, row.position, row.logits
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, row.sequence
        handle = self._context(sequences)
        code = llama_cpp.llama_decode(handle, batch)
        llama_cpp.llama_synchronize(handle)
        llama_cpp.llama_batch_free(batch)
        if code:
            raise SystemExit(f"llama_decode returned {code}")


def load(path: str) -> Any:
    """The handle of a model."""
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(path.encode(), params)
    if not model:
        raise SystemExit(f"llama.cpp cannot load {path}")
    return model


def quantize(source: str, target: str, kind: str, *, pure: bool) -> None:
    """A file as llama.cpp's own quantizer makes it, of one that may be quantized itself.

    A type stands for a mixture: the embeddings of Q4_0 that people download have 6 bits or more.
    ``pure`` gives every matrix that type alone.
    """
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    params.pure, params.allow_requantize = pure, True
    code = llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params))
    if code:
        raise SystemExit(f"llama_model_quantize returned {code}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("target", nargs="?")
    parser.add_argument("--quantize", metavar="TYPE")
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--clients", action="store_true", help="the questions of bench/engine.py")
    args = parser.parse_args()
    llama_cpp.llama_backend_init()
    if args.quantize:
        quantize(args.model, args.target, args.quantize, pure=args.pure)
    elif args.cold:
        cold(lambda: LlamaCpp(load(args.model), args.threads), prompt=128, context=2048)
    else:
        about = {
            "engine": "llama.cpp",
            "version": f"llama-cpp-python {llama_cpp.__version__}",
            "program": llama_cpp.llama_print_system_info().decode().strip(),
        }
        model = load(args.model)
        engine = LlamaCpp(model, args.threads)
        if args.clients:
            behind = LlamaCpp(model, args.threads, CAPACITY_BEHIND).short_behind_long
            asked = (engine.clients, engine.prefix, behind)
            listen(about, {question.__name__: question for question in asked})
        else:
            serve(engine, args.threads, about)


if __name__ == "__main__":
    main()
