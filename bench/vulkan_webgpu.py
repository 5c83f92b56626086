"""How programs of a bundle run by Vulkan compare with those of the same arithmetic by WebGPU.

    python bench/vulkan_webgpu.py [BUNDLE] [--rounds N] [--tokens N] [--pairs ID ...] [--json FILE]

Without a bundle, the demo model in q4. A pair of programs has one name but for the target, such as
``vulkan-f32-serial`` and ``webgpu-f32-serial``; both are loaded, and measured in turn. Prints
Markdown: tokens a second are the generation loop's, with everything it does. What a step of a burst
costs the host is the time of the call that hands it over, with the device idle before.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.engine.pace import MAX_BURST
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state, pages_for
from edgewise_runtime.text import Tokenizer
from gpu.kernels import Work, step_arrays
from gpu.speed import PROMPT, SLACK, Loop
from machine import describe, wait_until_idle

HERE = Path(__file__).parent
BUILD = HERE.parent / "build/bench"
IDLE_WAIT = 20.0  # seconds
TARGETS = ("vulkan", "webgpu")


def main() -> None:
    args = arguments()
    bundle = Bundle.open(args.bundle or compiled())
    idle = wait_until_idle(IDLE_WAIT)
    found: dict[str, Any] = {"machine": describe(), "idle_before": idle, "pairs": []}
    for suffix in args.pairs or pairs_of(bundle):
        found["pairs"].append(measure(bundle, suffix, args.rounds, args.tokens))
    print(markdown(found))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", nargs="?", type=Path, help="with programs for both")
    parser.add_argument("--json", type=Path, help="where to write every number")
    parser.add_argument("--rounds", type=int, default=5, help="of which median and best are told")
    parser.add_argument("--tokens", type=int, default=32, help="decoded in a sample")
    parser.add_argument("--pairs", nargs="+", help="such as f32-serial; default: all there are")
    return parser.parse_args()


def compiled() -> Path:
    """The demo model in q4 for both, compiled anew if the compiler is newer."""
    from edgewise_compiler.compile import compile_model

    bundle = BUILD / "demo-vulkan-q4"
    made = bundle / "bundle.json"
    newest = max(path.stat().st_mtime for path in (HERE.parent / "compiler").rglob("*.py"))
    if not made.exists() or made.stat().st_mtime < newest:
        compile_model(HERE.parent / "examples/demo-model", bundle, targets=TARGETS, quant="q4")
    return bundle


def pairs_of(bundle: Bundle) -> list[str]:
    """Names of programs without their target, of those that there are for both."""
    names = [
        {p.id.removeprefix(f"{target}-") for p in bundle.manifest.programs if p.target == target}
        for target in TARGETS
    ]
    return sorted(set.intersection(*names))


def measure(bundle: Bundle, suffix: str, rounds: int, tokens: int) -> dict[str, Any]:
    """Every figure of a pair of programs, in seconds; samples of the two take turns."""
    context = min(bundle.model.context, PROMPT + tokens + 2 * MAX_BURST + SLACK)
    pages = pages_for(context, paged_state(bundle.manifest).page_tokens)
    tokenizer = Tokenizer.from_bundle(bundle)
    samples: dict[str, dict[str, list[float]]] = {}
    loaded: dict[str, float] = {}
    with ExitStack() as stack:
        programs = {}
        for target in TARGETS:
            start = time.perf_counter()
            name, device = f"{target}-{suffix}", device_for_target(target)
            program = device.load(bundle, name, load_symbols={"pages": pages})
            loaded[target] = time.perf_counter() - start
            programs[target] = stack.enter_context(program)
        loops = {target: Loop(program, tokenizer, pages) for target, program in programs.items()}
        for loop in loops.values():
            loop.prefill(PROMPT)
            loop.decode(1, MAX_BURST, tokens)
        for _ in range(rounds):
            for target, loop in loops.items():
                found = samples.setdefault(target, {})
                found.setdefault("prefill", []).append(loop.prefill(PROMPT))
                found.setdefault("decode", []).append(loop.decode(1, MAX_BURST, tokens))
                found.setdefault("decode k=1", []).append(loop.decode(1, 1, tokens))
        for target, program in programs.items():
            samples[target]["submit"] = [submitted(program) for _ in range(rounds * 4)]
    return {
        "pair": suffix,
        "load_s": loaded,
        "samples_s": samples,
        "median_s": _each(samples, median),
        "least_s": _each(samples, min),
    }


def _each(
    samples: dict[str, dict[str, list[float]]], of: Callable[[list[float]], float]
) -> dict[str, dict[str, float]]:
    return {
        target: {name: of(values) for name, values in found.items()}
        for target, found in samples.items()
    }


def submitted(program: LoadedProgram) -> float:
    """Seconds of the host for a step of a burst: until `run` returns, over its steps."""
    work = Work("decode", 1, 1, PROMPT)
    plan = program.program.plan_for(work.operation, work.symbols | {"t": PROMPT + MAX_BURST})
    if plan is None:
        raise ValueError(f"{program.program.id} has no plan for {work}")
    columns = program.read("table").shape[1]
    page_tokens = paged_state(program.bundle.manifest).page_tokens
    arrays = step_arrays(work, columns, page_tokens)
    arrays = {**arrays, "step": step_array(1, 1, 1, PROMPT + MAX_BURST)}
    for name, array in arrays.items():
        program.write(name, array)
    # Whatever was handed over before is done, and so are the writes.
    program.read("counts", slice(0, 1), slice(0, 1))
    start = time.perf_counter()
    program.run(plan, MAX_BURST)
    taken = time.perf_counter() - start
    program.read("table", slice(0, 1))
    return taken / MAX_BURST


def markdown(found: dict[str, Any]) -> str:
    """The figures as a table: medians, and in brackets the best of all rounds."""
    lines = [
        f"| program | host's µs a step (k = {MAX_BURST}) | decode, tokens/s (k = {MAX_BURST}) | "
        f"k = 1 | prefill of {PROMPT}, tokens/s | load, s |",
        "|---|---|---|---|---|---|",
    ]
    for pair in found["pairs"]:
        for target, taken in pair["median_s"].items():
            best = pair["least_s"][target]
            cells = (
                f"`{target}-{pair['pair']}`",
                f"{taken['submit'] * 1e6:,.1f} ({best['submit'] * 1e6:,.1f})",
                f"{1 / taken['decode']:,.0f} ({1 / best['decode']:,.0f})",
                f"{1 / taken['decode k=1']:,.0f} ({1 / best['decode k=1']:,.0f})",
                f"{PROMPT / taken['prefill']:,.0f} ({PROMPT / best['prefill']:,.0f})",
                f"{pair['load_s'][target]:,.2f}",
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
