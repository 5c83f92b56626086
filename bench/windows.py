"""What a sliding window saves: a long sequence of a model with one and of the same model without.

    python bench/windows.py [--tokens N] [--rounds N]

Both are random models of 185 million parameters in q4, on this machine's best CPU program. Figures
are medians of rounds in which they take turns; pages are those that the sequence takes at most.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from checkpoint import SHAPES
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.engine.pace import MAX_BURST
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import footprint
from edgewise_runtime.text import Tokenizer
from engines import BUILD, checkpoint, our_bundle
from machine import wait_until_idle
from steps import Steps

NAMES = ("window-1024", "window-none")
ANSWER = 48
"""Tokens that are decoded."""

WARMUP = 16
"""Of them those before the clock: bursts grow."""

MOST = ANSWER + 2 * MAX_BURST
"""A burst may go beyond what was asked for."""


@dataclass(frozen=True)
class Figures:
    """Tokens a second of a prompt and after it, pages at most, and bytes of a page."""

    prefill: float
    decode: float
    pages: int
    page_bytes: int


def measure(bundles: Mapping[str, Path], tokens: int, rounds: int) -> dict[str, Figures]:
    """The figures of each bundle, by name, for a prompt of so many tokens."""
    loops, sizes, held = {}, {}, {}
    for name, path in bundles.items():
        bundle = Bundle.open(path)
        context = tokens + MOST
        pages = footprint(bundle.manifest).pages(context)
        program = CpuDevice().load(bundle, load_symbols={"pages": pages}, trust=True)
        sizes[name], held[name] = program.program.page_bytes[0], pages
        loops[name] = Steps(program, Tokenizer.from_bundle(bundle), pages, context)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    for nth in range(rounds + 1):
        for name in [*loops] if nth % 2 else [*loops][::-1]:
            wait_until_idle(0 if rounds == 1 else 20)
            loop, start = loops[name], time.perf_counter()
            loop.begin(1, tokens - 1, MOST)
            loop.advance(1)
            filled = time.perf_counter()
            loop.advance(WARMUP)
            warm = time.perf_counter()
            loop.advance(ANSWER - WARMUP - 1)
            took = filled - start, (time.perf_counter() - warm) / (ANSWER - WARMUP - 1)
            if nth:  # the first one touches the memory
                seconds[name].append(took)
    return {
        name: Figures(
            (tokens - 1) / median(prefill for prefill, _ in found),
            1 / median(decode for _, decode in found),
            held[name],
            sizes[name],
        )
        for name, found in seconds.items()
    }


def compiled(name: str) -> Path:
    """The q4 bundle of a shape."""
    return our_bundle(checkpoint(SHAPES[name]), BUILD / f"{name}-q4", "q4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    found = measure({name: compiled(name) for name in NAMES}, args.tokens, args.rounds)
    print(f"| {args.tokens} tokens | prefill, tokens/s | decode, tokens/s | pages | MiB |")
    print("|---|---|---|---|---|")
    for name, one in found.items():
        mib = one.pages * one.page_bytes / 2**20
        print(f"| {name} | {one.prefill:.0f} | {one.decode:.1f} | {one.pages} | {mib:.1f} |")


if __name__ == "__main__":
    main()
