"""How fast the CPU program is, beside llama.cpp in the same run where one is given.

    python bench/cpu.py [--llama VENV] [--json FILE] [--quick]

Medians over interleaved rounds on a random-weight Qwen3-0.6B shape. Each sample waits for an idle
machine and records its utilisation: the share of its threads' cores that it had. A sample below
``CLEAN`` shared the machine and is only counted where there is no better one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from checkpoint import SHAPES, Shape, write_checkpoint
from machine import describe, wait_until_idle
from peers.gguf_writer import write_gguf
from protocol import Answer, Command, Driver, ask_cold

HERE = Path(__file__).parent
BUILD = HERE.parent / "build/bench"
CLEAN = 0.9


@dataclass(frozen=True)
class Sample:
    """One thing measured: the question, and the tokens that its answer's seconds produced."""

    question: str
    tokens: int


SAMPLES = {
    "prefill_128": Sample("prefill 128", 128),
    "prefill_512": Sample("prefill 512", 512),
    "decode_1_128": Sample("decode 1 128 48", 48),
    "decode_4_128": Sample("decode 4 128 24", 96),
    "decode_1_2048": Sample("decode 1 2048 32", 32),
}
# What a fresh process pays: the key in its answer, and the unit.
COSTS = {
    "memory": ("peak_mib", "MiB"),
    "load": ("load", "s"),
    "ready": ("ready", "s"),
    "first_token": ("first_token", "s"),
}
BUSY = {
    "alone": Sample("decode 1 128 48", 48),
    "busy": Sample("busy 1 128 48", 48),
}


@dataclass(frozen=True)
class Effort:
    """How often to measure: wanted clean rounds, most rounds, fresh processes, seconds to wait."""

    rounds: int
    most: int
    cold: int
    idle_wait: float


FULL = Effort(rounds=5, most=12, cold=3, idle_wait=20.0)
QUICK = Effort(rounds=1, most=1, cold=1, idle_wait=0.0)


def main() -> None:
    args = arguments()
    effort = QUICK if args.quick else FULL
    shape = SHAPES[args.shape]
    BUILD.mkdir(parents=True, exist_ok=True)
    commands = {"ours": our_command(shape, args.threads)}
    if args.llama:
        commands["peer"] = peer_command(shape, args.llama, args.threads)
    result: dict[str, object] = {"machine": describe(args.threads), "shape": shape.name}
    colds = measure_cold(commands, effort)
    with_engines(commands, lambda drivers: result.update(measure_speed(drivers, effort)))
    for name, cold in colds.items():
        engine = result[name]
        if isinstance(engine, dict):
            engine.update(cold)
    result.update(measure_busy(shape, args.threads, effort))
    result["ratios"] = ratios(result)
    print(table(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama", type=Path, help="virtual environment with llama-cpp-python")
    parser.add_argument("--json", type=Path, help="where to write every number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--quick", action="store_true", help="one round, no waiting: a smoke test")
    return parser.parse_args()


def checkpoint(shape: Shape) -> Path:
    folder = BUILD / shape.name
    if not (folder / "config.json").exists():
        print(f"writing a random {shape.name}", file=sys.stderr)
        write_checkpoint(folder, shape)
    return folder


def our_command(shape: Shape, threads: int) -> Command:
    bundle = our_bundle(shape, f"{shape.name}-q4")
    return Command(Path(sys.executable), HERE / "ours.py", (str(bundle), "--threads", str(threads)))


def our_bundle(shape: Shape, name: str, *options: str) -> Path:
    """The q4 bundle of that name, compiled again whenever a source of the compiler is newer."""
    bundle = BUILD / name
    sources = (HERE.parent / "compiler").rglob("*.py")
    newest = max(path.stat().st_mtime for path in sources)
    made = bundle / "bundle.json"
    if not made.exists() or made.stat().st_mtime < newest:
        edgewise = Path(sys.executable).with_name("edgewise")
        asked = ["--target", "cpu", "--quant", "q4", *options, "-o", str(bundle)]
        subprocess.run([edgewise, "compile", str(checkpoint(shape)), *asked], check=True)
    return bundle


def peer_command(shape: Shape, prefix: Path, threads: int, *options: str) -> Command:
    """llama.cpp with the Q4_0 that its own quantizer makes of the same weights."""
    python, script = prefix.absolute() / "bin/python", HERE / "peers/llamacpp.py"
    whole, quantized = BUILD / f"{shape.name}-f16.gguf", BUILD / f"{shape.name}-q4_0.gguf"
    if not quantized.exists():
        write_gguf(checkpoint(shape), whole, shape)
        command = Command(python, script, ("--quantize", str(whole), str(quantized)))
        subprocess.run(command.line(), env=command.environment(), check=True, capture_output=True)
        whole.unlink()
    return Command(python, script, (str(quantized), "--threads", str(threads), *options))


def with_engines(
    commands: Mapping[str, Command], work: Callable[[Mapping[str, Driver]], None]
) -> None:
    drivers = {name: Driver(command, BUILD / f"{name}.log") for name, command in commands.items()}
    try:
        work(drivers)
    finally:
        for driver in drivers.values():
            driver.close()


def measure_cold(commands: Mapping[str, Command], effort: Effort) -> dict[str, dict[str, float]]:
    """Medians of what a fresh process pays, engine by engine."""
    answers: dict[str, list[Answer]] = {name: [] for name in commands}
    for turn in range(effort.cold):
        for name in in_turn(commands, turn):
            wait_until_idle(effort.idle_wait)
            answers[name].append(ask_cold(commands[name], BUILD / f"{name}-cold.log"))
    return {
        name: {key: round(median(a[key] for a in got), 3) for key in got[0]}
        for name, got in answers.items()
    }


def measure_speed(drivers: Mapping[str, Driver], effort: Effort) -> dict[str, object]:
    """Every sample of every engine, round by round; ``{engine: {sample: figures}}``."""
    got = interleave(drivers, SAMPLES, effort)
    return {
        name: {
            **driver.about,
            **{key: figures(got[name, key], sample) for key, sample in SAMPLES.items()},
        }
        for name, driver in drivers.items()
    }


def measure_busy(shape: Shape, threads: int, effort: Effort) -> dict[str, float]:
    """Decode with one busy Python thread beside it, as a share of decode alone.

    ``busy_thread`` leaves that thread a core of its own, so what is lost is lost to the interpreter
    lock; ``busy_thread_oversubscribed`` has one more runnable thread than cores.
    """
    shares = {}
    for key, count in (
        ("busy_thread", max(1, threads - 1)),
        ("busy_thread_oversubscribed", threads),
    ):
        command = our_command(shape, count)

        def work(drivers: Mapping[str, Driver], key: str = key) -> None:
            got = interleave(drivers, BUSY, effort, clean=0.0)
            speed = {name: median(speeds(got["ours", name], BUSY[name])) for name in BUSY}
            shares[key] = round(speed["busy"] / speed["alone"], 3)

        with_engines({"ours": command}, work)
    return shares


def interleave(
    drivers: Mapping[str, Driver],
    samples: Mapping[str, Sample],
    effort: Effort,
    clean: float = CLEAN,
) -> dict[tuple[str, str], list[Answer]]:
    """Asks until every (engine, sample) has enough clean answers, or for the most rounds."""
    got: dict[tuple[str, str], list[Answer]] = {
        (name, key): [] for name in drivers for key in samples
    }
    for driver in drivers.values():
        driver.ask("prefill 32")
    for turn in range(effort.most):
        for key, sample in samples.items():
            enough = (
                sum(a["util"] >= clean for a in got[name, key]) >= effort.rounds for name in drivers
            )
            if turn >= effort.rounds and all(enough):
                continue
            for name in in_turn(drivers, turn):
                idle = wait_until_idle(effort.idle_wait)
                answer = drivers[name].ask(sample.question)
                got[name, key].append({**answer, "idle_before": idle})
                print(f"\r{turn + 1}: {name} {key}      ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return got


def in_turn(names: Iterable[str], turn: int) -> list[str]:
    """Engines take turns in going first."""
    ordered = list(names)
    return ordered if turn % 2 == 0 else ordered[::-1]


def speeds(answers: Iterable[Answer], sample: Sample) -> list[float]:
    """Tokens a second of the clean answers, or of all where none is clean."""
    got = list(answers)
    best = [a for a in got if a["util"] >= CLEAN] or got
    return [sample.tokens / a["seconds"] for a in best]


def figures(answers: list[Answer], sample: Sample) -> dict[str, float]:
    rates = speeds(answers, sample)
    return {
        "tok_s": round(median(rates), 2),
        "best": round(max(rates), 2),
        "worst": round(min(rates), 2),
        "samples": len(rates),
        "asked": len(answers),
        "util": round(median(a["util"] for a in answers), 3),
        "idle_before": round(median(a["idle_before"] for a in answers), 3),
    }


def ratios(result: Mapping[str, object]) -> dict[str, float]:
    """Ours over the peer's, so that more than one is better: speed directly, costs inverted."""
    ours, peer = result["ours"], result.get("peer")
    if not isinstance(ours, dict) or not isinstance(peer, dict):
        return {}
    faster = {key: ours[key]["tok_s"] / peer[key]["tok_s"] for key in SAMPLES}
    cheaper = {name: peer[key] / ours[key] for name, (key, _) in COSTS.items()}
    return {key: round(value, 3) for key, value in {**faster, **cheaper}.items()}


def table(result: Mapping[str, object]) -> str:
    """The result for people."""
    engines = {name: result[name] for name in ("ours", "peer") if name in result}
    rows = [["", *engines, "ratio"]]
    shares = result["ratios"] if isinstance(result["ratios"], dict) else {}
    for key in SAMPLES:
        values = [e[key]["tok_s"] for e in engines.values() if isinstance(e, dict)]
        rows.append([f"{key} tok/s", *(f"{v:.1f}" for v in values), _shown(shares.get(key))])
    for name, (key, unit) in COSTS.items():
        values = [e[key] for e in engines.values() if isinstance(e, dict)]
        rows.append([f"{name} {unit}", *(f"{v:.2f}" for v in values), _shown(shares.get(name))])
    for key in ("busy_thread", "busy_thread_oversubscribed"):
        rows.append([key, _shown(result[key]), *[""] * len(engines)])
    return "\n".join(f"{row[0]:28}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else ""


if __name__ == "__main__":
    main()
