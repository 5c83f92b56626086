"""How fast CPU programs are and how good their weights, beside peers in the same run where given.

    python bench/cpu.py [--quant NAME,NAME] [--llama VENV] [--ik BUILD] [--json FILE] [--quick]

Speeds are medians over interleaved rounds on a random-weight shape, by default Qwen3-0.6B's. Each
sample waits for an idle machine and records its utilisation: the share of its threads' cores that
it had. A sample below ``rounds.CLEAN`` shared the machine and only counts where there is no better
one. Beside them stands the KL that the same way of storing weights has on SmolLM2-135M-Instruct.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

# As a script, this file sees its own folder, not the root that the tools are named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from checkpoint import SHAPES, Shape
from edgewise_compiler.quantize import DEFAULT_QUANT
from edgewise_runtime.cost import Bandwidth, measure_bandwidth
from engines import (
    BUILD,
    ik_command,
    import_llama_cpp,
    log,
    our_command,
    peer_command,
    peer_file,
    with_engines,
)
from machine import describe, wait_until_idle
from protocol import Answer, Command, Driver, ask_cold
from rounds import Effort, Sample, figures, in_turn, interleave, speeds
from scoring.models import MODELS
from scoring.points import OURS, PEERS, POINTS, PURE, Point
from scoring.score import scored
from tables import table

SAMPLES = {
    "prefill_128": Sample("prefill 128", 128),
    "prefill_512": Sample("prefill 512", 512),
    "decode_1_128": Sample("decode 1 128 48", 48),
    "decode_4_128": Sample("decode 4 128 24", 96),
    "decode_1_2048": Sample("decode 1 2048 32", 32),
}
# What a fresh process pays: the key in its answer.
COSTS = {
    "memory": "peak_mib",
    "load": "load",
    "ready": "ready",
    "first_token": "first_token",
}
BUSY = {
    "alone": Sample("decode 1 128 48", 48),
    "busy": Sample("busy 1 128 48", 48),
}
LLAMA_TYPES = ("Q4_0", "Q4_K_M")
IK_TYPE = "Q4_0"
BATCHED = frozenset({"decode_4_128"})
"""What llama-bench cannot be asked."""

FULL = Effort(rounds=5, most=12, cold=3, idle_wait=20.0)
QUICK = Effort(rounds=1, most=1, cold=1, idle_wait=0.0)


@dataclass(frozen=True)
class Engine:
    """What is measured.

    Attributes:
        point: how its weights are stored, a name of `scoring.points.POINTS`.
        without: samples that it cannot give.
        cold: whether a fresh process of it can say what it pays.
    """

    command: Command
    point: str
    ours: bool
    without: frozenset[str] = frozenset()
    cold: bool = True


def main() -> None:
    args = arguments()
    effort = QUICK if args.quick else FULL
    shape = SHAPES[args.shape]
    BUILD.mkdir(parents=True, exist_ok=True)
    engines = chosen(shape, args)
    result: dict[str, Any] = {
        "machine": describe(args.threads),
        "shape": shape.name,
        "engines": {name: {"point": engine.point} for name, engine in engines.items()},
    }
    if args.quality and not args.quick:
        measure_quality(result["engines"], engines, args.llama, args.threads)
    for name, cold in measure_cold(engines, effort).items():
        result["engines"][name] |= cold
    commands = {name: engine.command for name, engine in engines.items()}
    with_engines(commands, lambda d: measure_speed(result, engines, d, effort, args.threads))
    result |= measure_busy(shape, args.quant[0].kind, args.threads, effort)
    result["ratios"] = {
        mine: {
            other: ratios(result["engines"][mine], result["engines"][other])
            for other in engines
            if not engines[other].ours
        }
        for mine in engines
        if engines[mine].ours
    }
    print(table(result, SAMPLES))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quant",
        metavar="NAME,NAME",
        type=partial(named, OURS),
        default=DEFAULT_QUANT,
        help=f"what of ours to measure: {', '.join(OURS)} (default: {DEFAULT_QUANT})",
    )
    parser.add_argument("--llama", type=Path, help="virtual environment with llama-cpp-python")
    parser.add_argument(
        "--llama-types",
        metavar="TYPE,TYPE",
        type=partial(named, PEERS),
        default=",".join(LLAMA_TYPES),
        help=f"of {', '.join(PEERS)} (default: {','.join(LLAMA_TYPES)})",
    )
    parser.add_argument(
        "--ik", metavar="BUILD", type=Path, help="a build of ik_llama.cpp; needs --llama as well"
    )
    parser.add_argument("--json", type=Path, help="where to write every number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument(
        "--no-quality", dest="quality", action="store_false", help="leave out the KL"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one round, no waiting, no KL: a smoke test"
    )
    args = parser.parse_args()
    if args.ik is not None and args.llama is None:
        parser.error("--ik needs --llama, whose quantizer makes the file")
    return args


def named(points: Mapping[str, Point], names: str) -> list[Point]:
    """The points that an option names."""
    unknown = [name for name in names.split(",") if name not in points]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(points)}")
    return [points[name] for name in names.split(",")]


def chosen(shape: Shape, args: argparse.Namespace) -> dict[str, Engine]:
    """Engines by name, ours first; their models are made where they are not there yet."""
    found = {
        point.name: Engine(our_command(shape, point.kind, args.threads), point.name, ours=True)
        for point in args.quant
    }
    for point in args.llama_types if args.llama else ():
        file = peer_file(shape, args.llama, point.kind, pure=point.option == PURE)
        command = peer_command(file, args.llama, args.threads)
        found[f"llama {point.name}"] = Engine(command, point.name, ours=False)
    if args.ik:
        command = ik_command(peer_file(shape, args.llama, IK_TYPE), args.ik, args.threads)
        found[f"ik {IK_TYPE}"] = Engine(command, IK_TYPE, ours=False, without=BATCHED, cold=False)
    return found


def measure_quality(
    found: dict[str, dict[str, Any]],
    engines: Mapping[str, Engine],
    llama: Path | None,
    threads: int,
) -> None:
    """Adds to each engine's figures the quality of its way to store weights, on a real model.

    What ik_llama.cpp runs are llama.cpp's files, and their KL is that of llama.cpp with them.
    """
    if llama is not None:
        import_llama_cpp(llama)
    for name, engine in engines.items():
        figures = scored(MODELS["smollm2"], POINTS[engine.point], llama, threads)
        kept = ("kl", "same_top1", "weight_bytes", "bits_per_weight")
        found[name]["quality"] = {key: figures[key] for key in kept}


def measure_cold(engines: Mapping[str, Engine], effort: Effort) -> dict[str, dict[str, float]]:
    """Medians of what a fresh process pays, engine by engine."""
    answers: dict[str, list[Answer]] = {name: [] for name in engines if engines[name].cold}
    for turn in range(effort.cold):
        for name in in_turn(answers, turn):
            wait_until_idle(effort.idle_wait)
            answers[name].append(ask_cold(engines[name].command, log(f"{name}-cold")))
    return {
        name: {key: round(median(a[key] for a in got), 3) for key in got[0]}
        for name, got in answers.items()
    }


def measure_speed(
    result: dict[str, Any],
    engines: Mapping[str, Engine],
    drivers: Mapping[str, Driver],
    effort: Effort,
    threads: int,
) -> None:
    """Adds every sample of every engine, round by round, and the memory's speed meanwhile."""
    rates: list[Bandwidth] = []
    without = {(name, key) for name in engines for key in engines[name].without}
    got = interleave(
        drivers,
        SAMPLES,
        effort,
        without=without,
        between=lambda: rates.append(measure_bandwidth(threads=threads)),
    )
    result["read_gb_s"] = {
        "best": round(max(rate.best for rate in rates), 2),
        "median": round(median(rate.median for rate in rates), 2),
    }
    for name, driver in drivers.items():
        own = result["engines"][name]
        own |= driver.about
        own |= {
            key: figures(got[name, key], sample)
            for key, sample in SAMPLES.items()
            if (name, key) in got
        }
        for key in ("decode_1_128", "decode_1_2048") if engines[name].ours else ():
            moved = driver.ask(SAMPLES[key].question.replace("decode", "bytes"))["bytes"]
            own[key] |= of_bandwidth(own[key]["tok_s"], moved, result["read_gb_s"])


def of_bandwidth(tok_s: float, moved: float, read_gb_s: Mapping[str, float]) -> dict[str, float]:
    """Bytes of a step, and the share of the memory's read speeds that steps at this rate take.

    Of the median pass, since `tok_s` is a median as well, and of the best one.
    """
    taken = tok_s * moved / 1e9
    return {
        "bytes": moved,
        "of_median": round(taken / read_gb_s["median"], 3),
        "of_best": round(taken / read_gb_s["best"], 3),
    }


def measure_busy(shape: Shape, quant: str, threads: int, effort: Effort) -> dict[str, float]:
    """Decode with one busy Python thread beside it, as a share of decode alone.

    ``busy_thread`` leaves that thread a core of its own, so what is lost is lost to the interpreter
    lock; ``busy_thread_oversubscribed`` has one more runnable thread than cores.
    """
    shares = {}
    for key, count in (
        ("busy_thread", max(1, threads - 1)),
        ("busy_thread_oversubscribed", threads),
    ):
        command = our_command(shape, quant, count)

        def work(drivers: Mapping[str, Driver], key: str = key) -> None:
            got = interleave(drivers, BUSY, effort, clean=0.0)
            speed = {name: median(speeds(got["ours", name], BUSY[name])) for name in BUSY}
            shares[key] = round(speed["busy"] / speed["alone"], 3)

        with_engines({"ours": command}, work)
    return shares


def ratios(ours: Mapping[str, Any], peer: Mapping[str, Any]) -> dict[str, float]:
    """Ours over a peer's, so that more than one is better: speed directly, costs inverted.

    What one of them does not have is left out.
    """
    faster = {
        key: ours[key]["tok_s"] / peer[key]["tok_s"]
        for key in SAMPLES
        if key in ours and key in peer
    }
    cheaper = {
        name: peer[key] / ours[key] for name, key in COSTS.items() if key in ours and key in peer
    }
    return {key: round(value, 3) for key, value in {**faster, **cheaper}.items()}


if __name__ == "__main__":
    main()
