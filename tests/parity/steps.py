"""What programs compute, written to a file: run by an interpreter of each kind of machine.

    python -m tests.parity.steps OUT BUNDLE:PROGRAM...

Imports nothing that an interpreter without the compiler and the tests' packages lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.format.bundle import Bundle
from tests.parity.driver import Driver

PROMPT = [int(token) for token in np.random.default_rng(11).integers(0, 320, 70)]
LENGTHS = (63, 1, 40, 17)
PAGES = 80


def steps(program: LoadedProgram) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    """Logits of a prompt, whole and in pieces, and of sequences that are decoded together, with the
    tokens drawn for them."""
    driver = Driver(program, pages=PAGES)
    yield "whole", driver.prefill([(driver.stream(), PROMPT)])[0]
    driver = Driver(program, pages=PAGES, seed=1)
    stream = driver.stream()
    pieces = [driver.prefill([(stream, PROMPT[a:b])])[0] for a, b in ((0, 1), (1, 34), (34, 70))]
    yield "pieces", np.concatenate(pieces)
    driver = Driver(program, pages=PAGES, seed=2)
    streams = [driver.stream(slot) for slot in range(len(LENGTHS))]
    driver.prefill([(s, PROMPT[:n]) for s, n in zip(streams, LENGTHS, strict=True)])
    rows = [(s, PROMPT[n]) for s, n in zip(streams, LENGTHS, strict=True)]
    params = SamplingParams(temperature=1.3, top_p=0.95, top_k=50, frequency_penalty=0.25)
    for burst in (1, 8):
        tokens, logits = driver.decode(rows, k=burst, params=params)
        yield f"burst of {burst}", logits
        yield f"tokens of {burst}", np.array(tokens)
        rows = [(s, drawn[-1]) for s, drawn in zip(streams, tokens, strict=True)]


def main(out: str, *programs: str) -> None:
    """Write the steps of each program, ``BUNDLE:ID``, an ID of nothing being the best one here."""
    found = {}
    for each in programs:
        folder, _, name = each.rpartition(":")
        bundle = Bundle.open(Path(folder))
        loaded = CpuDevice(threads=1).load(bundle, name or None, load_symbols={"pages": PAGES})
        with loaded as program:
            found |= {f"{each}|{step}": array for step, array in steps(program)}
    np.savez(out, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
