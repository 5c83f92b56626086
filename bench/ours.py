"""edgewise behind the benchmark's protocol: its generation loop, with everything it does per burst.

python ours.py BUNDLE --threads 2 [--cold]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from edgewise_runtime.bundle import Bundle
from edgewise_runtime.devices import tvm_library
from edgewise_runtime.devices.cpu import CpuDevice
from edgewise_runtime.engine.engine import MAX_BURST, GenerationEngine
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.kv.pages import pages_for
from edgewise_runtime.text import Tokenizer
from protocol import cold, serve, token_at

CAPACITY = 2304  # tokens of all sequences together
ROOM = 256  # tokens a sequence may grow by
WARMUP = (1, 2, 4, 8)  # the engine's bursts grow to MAX_BURST; these come before the measured ones


class Edgewise:
    """One program and its generation loop."""

    def __init__(self, path: Path, threads: int) -> None:
        bundle = Bundle.open(path)
        tokenizer = Tokenizer.from_folder(bundle.path)
        pages = pages_for(CAPACITY)
        program = CpuDevice(threads).load(bundle, load_symbols={"pages": pages})
        self.program = program.program.id
        self._vocab = bundle.model.vocab
        self._engine = GenerationEngine(program, tokenizer, pages=pages, context=CAPACITY)
        self._running: Iterator[tuple[Sequence, str]] = iter(())
        self._batch = 0

    def prefill(self, tokens: int) -> None:
        self._run(1, tokens)
        self._take(1)

    def prepare(self, batch: int, context: int) -> None:
        self._run(batch, context - sum(WARMUP))
        self._take((1 + len(WARMUP)) * batch)

    def decode(self, steps: int) -> None:
        self._take(steps // MAX_BURST * self._batch)

    def _run(self, batch: int, prompt: int) -> None:
        """Begins anew with sequences of ``prompt`` tokens that never end by themselves."""
        self._running = iter(())  # ends the generator before, which gives its pages back
        params = SamplingParams(max_tokens=ROOM, temperature=0.0, ignore_eos=True)
        self._batch = batch
        self._running = self._engine.run(
            [
                self._engine.sequence(
                    Request(tuple(token_at(i, s, self._vocab) for i in range(prompt)), params)
                )
                for s in range(batch)
            ]
        )

    def _take(self, pieces: int) -> None:
        """Runs until ``pieces`` pieces have come: one a prompt, then one a sequence and burst."""
        taken = sum(1 for _ in islice(self._running, pieces))
        if taken != pieces:
            raise SystemExit(f"the engine stopped after {taken} of {pieces} pieces")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args()
    tvm_library.ffi()  # the counterpart of the peer's `import llama_cpp`
    if args.cold:
        cold(lambda: Edgewise(args.bundle, args.threads), prompt=128, context=2048)
        return
    engine = Edgewise(args.bundle, args.threads)
    about = {"engine": "edgewise", "version": version("edgewise"), "program": engine.program}
    serve(engine, args.threads, about)


if __name__ == "__main__":
    main()
