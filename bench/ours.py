"""edgewise behind the benchmark's protocol: its generation engine, with all it does per step.

python ours.py BUNDLE --threads 2 [--cold]
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

from edgewise_runtime.cost import plan_cost
from edgewise_runtime.devices.cpu import tvm_library
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state, pages_for
from edgewise_runtime.text import Tokenizer
from protocol import Answer, cold, serve
from steps import Steps

CAPACITY = 2304  # tokens of all sequences together
ROOM = 256  # tokens a sequence may grow by
WARMUP = (1, 2, 4, 8)  # the engine's bursts grow; these come before the measured ones


class Edgewise:
    """One program and its generation engine, a step at a time."""

    def __init__(self, path: Path, threads: int) -> None:
        bundle = Bundle.open(path)
        tokenizer = Tokenizer.from_bundle(bundle)
        pages = pages_for(CAPACITY, paged_state(bundle.manifest).page_tokens)
        program = CpuDevice(threads).load(bundle, load_symbols={"pages": pages})
        self.program = program.program.id
        self._loaded, self._pages = program, pages
        self._steps = Steps(program, tokenizer, pages, CAPACITY)

    def prefill(self, tokens: int) -> None:
        self._steps.begin(1, tokens, ROOM)
        self._steps.advance(1)

    def prepare(self, batch: int, context: int) -> None:
        self._steps.begin(batch, context - sum(WARMUP), ROOM)
        self._steps.advance(1 + sum(WARMUP))

    def decode(self, steps: int) -> None:
        self._steps.advance(steps)

    def step_bytes(self, batch: int, context: int, steps: int) -> Answer:
        """Bytes that a step moves by its plan's cost: the one in the middle of so many."""
        rows = dict.fromkeys(("n", "b", "r"), batch)
        name = self._loaded.program.plan_for("decode", rows)
        if name is None:
            raise SystemExit(f"{self.program} has no plan for {batch} sequences")
        values = {"pages": self._pages, **rows, "kv": context + steps // 2}
        return {"bytes": plan_cost(self._loaded.plans[name], values).bytes}


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
    serve(engine, args.threads, about, {"bytes": engine.step_bytes})


if __name__ == "__main__":
    main()
