"""What the engine makes of many clients, beside llama.cpp in the same run where one is given.

    python bench/engine.py [--llama VENV] [--json FILE] [--quick]

Clients that stream side by side, a long prompt that comes in while others stream, a prompt whose
beginning is known, and how much of the KV memory is in use. Medians over interleaved rounds on a
random-weight Qwen3-0.6B shape. Each sample waits for an idle machine and records what share of
the processor time taken meanwhile was its own. A sample below ``CLEAN`` shared the machine and is
only counted where there is no better one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from checkpoint import SHAPES, Shape
from engines import BUILD, HERE, checkpoint, our_bundle, peer_command, peer_file, with_engines
from machine import busy_seconds, describe, wait_until_idle
from protocol import Answer, Command, Driver
from rounds import in_turn

CLEAN = 0.9
TICK = 0.01  # seconds: the clock of the processor time that everybody takes
CLIENTS = (1, 2, 4, 8)
CONTEXT = 9216

SHARED = {
    **{f"clients_{n}": f"clients {n} 128 48" for n in CLIENTS},
    "prefix": "prefix 1500 30",
}
"""What every engine is asked: clients, tokens of each one's prompt and answer; tokens that two
prompts share and tokens that they do not."""

OURS = {
    "long_prompt": "long_prompt 3 128 64 8192",
    "mixed": "mixed 64 1",
}
"""What only edgewise is asked: streams, tokens of their prompts, tokens before a long prompt comes
in and tokens of that; requests of mixed lengths and the seed of those."""


@dataclass(frozen=True)
class Effort:
    """How often to measure: wanted clean rounds, most rounds, seconds to wait for an idle machine.

    The questions of `OURS` take a minute each and are asked at most `most_of_ours` times.
    """

    rounds: int
    most: int
    rounds_of_ours: int
    most_of_ours: int
    idle_wait: float


FULL = Effort(rounds=5, most=12, rounds_of_ours=3, most_of_ours=5, idle_wait=20.0)
QUICK = Effort(rounds=1, most=1, rounds_of_ours=1, most_of_ours=1, idle_wait=0.0)

Figures = dict[str, dict[str, float]]


def main() -> None:
    args = arguments()
    effort = QUICK if args.quick else FULL
    if args.most is not None:
        ours = min(args.most, effort.most_of_ours)
        effort = replace(effort, most=args.most, most_of_ours=ours)
    if args.wait is not None:
        effort = replace(effort, idle_wait=args.wait)
    shape = SHAPES[args.shape]
    BUILD.mkdir(parents=True, exist_ok=True)
    commands = {"ours": our_command(shape, args.bundle, args.threads)}
    if args.llama:
        file = peer_file(shape, args.llama)
        commands["peer"] = peer_command(file, args.llama, args.threads, "--clients")
    result: dict[str, object] = {"machine": describe(args.threads), "shape": shape.name}

    def measure(drivers: Mapping[str, Driver]) -> None:
        for driver in drivers.values():
            for clients in CLIENTS:
                driver.ask(f"clients {clients} 32 12")
        figures = {name: summaries(got) for name, got in ask_all(drivers, effort).items()}
        result.update({name: {**drivers[name].about, **of} for name, of in figures.items()})
        result.update(headline(figures["ours"], figures.get("peer")))

    with_engines(commands, measure)
    print(table(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama", type=Path, help="virtual environment with llama-cpp-python")
    parser.add_argument("--json", type=Path, help="where to write every number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--bundle", type=Path, help=f"of that shape and --context {CONTEXT}")
    parser.add_argument("--quick", action="store_true", help="one round, no waiting: a smoke test")
    parser.add_argument(
        "--most", type=int, metavar="N", help="rounds at most, on a machine that is never idle"
    )
    parser.add_argument(
        "--wait", type=float, metavar="S", help="seconds to wait for an idle machine, each time"
    )
    return parser.parse_args()


def our_command(shape: Shape, bundle: Path | None, threads: int) -> Command:
    if bundle is None:
        folder = BUILD / f"{shape.name}-q4-{CONTEXT}"
        bundle = our_bundle(checkpoint(shape), folder, "q4", "--context", str(CONTEXT))
    script = HERE / "ours_clients.py"
    return Command(Path(sys.executable), script, (str(bundle), "--threads", str(threads)))


def ask_once(driver: Driver, question: str, clock: Callable[[], float] = busy_seconds) -> Answer:
    """An answer, with the share ``own`` of the processor time taken meanwhile that was its own."""
    before = clock()
    answer = driver.ask(question)
    return {**answer, "own": min(1.0, answer["cpu"] / max(clock() - before, TICK))}


def ask_all(
    drivers: Mapping[str, Driver],
    effort: Effort,
    ask: Callable[[Driver, str], Answer] = ask_once,
) -> dict[str, dict[str, list[Answer]]]:
    """Every answer, by engine and question.

    A question is asked until every engine has enough clean answers, or for the most rounds.
    """
    got: dict[str, dict[str, list[Answer]]] = {name: {} for name in drivers}
    asking: list[tuple[Mapping[str, str], Mapping[str, Driver], int, int]] = [
        (SHARED, drivers, effort.rounds, effort.most),
        (OURS, {"ours": drivers["ours"]}, effort.rounds_of_ours, effort.most_of_ours),
    ]
    for questions, of, rounds, most in asking:
        for turn in range(most):
            for key, question in questions.items():
                answers = [got[name].setdefault(key, []) for name in of]
                if turn >= rounds and all(len(clean(a)) >= rounds for a in answers):
                    continue
                for name in in_turn(of, turn):
                    idle = wait_until_idle(effort.idle_wait)
                    answer = ask(of[name], question)
                    got[name][key].append({**answer, "idle_before": idle})
                    print(f"\r{turn + 1}: {name} {key}      ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return got


def clean(answers: Iterable[Answer]) -> list[Answer]:
    """Those that had the machine to themselves."""
    return [answer for answer in answers if answer["own"] >= CLEAN]


def summaries(answers: Mapping[str, list[Answer]]) -> Figures:
    return {key: summary(got) for key, got in answers.items()}


def summary(answers: list[Answer]) -> dict[str, float]:
    """Medians of the clean answers, or of all where none is clean; and how many there were."""
    best = clean(answers) or answers
    medians = {key: round(median(a[key] for a in best), 5) for key in best[0]}
    return {**medians, "samples": len(best), "asked": len(answers)}


def headline(ours: Figures, peer: Figures | None) -> dict[str, float]:
    """The figures to look at first.

    ``scaling_n`` is tokens a second of n clients over those of one, ``vs_llama_n`` ours over the
    peer's with n clients, both while all of them decode; with ``whole`` from the first request to
    the last token.
    """
    found: dict[str, float] = {}
    for whole, key in (("", "decode_tok_s"), ("whole_", "whole_tok_s")):
        speed = {n: ours[f"clients_{n}"][key] for n in CLIENTS}
        for n in CLIENTS[1:]:
            found[f"scaling_{whole}{n}"] = speed[n] / speed[1]
        if peer:
            for n in CLIENTS:
                found[f"vs_llama_{whole}{n}"] = speed[n] / peer[f"clients_{n}"][key]
    found["warm_over_cold"] = ours["prefix"]["warm_over_cold"]
    if peer:
        found["llama_warm_over_cold"] = peer["prefix"]["warm_over_cold"]
        found["vs_llama_cold"] = peer["prefix"]["cold_s"] / ours["prefix"]["cold_s"]
        found["vs_llama_warm"] = peer["prefix"]["warm_s"] / ours["prefix"]["warm_s"]
    for key in ("itl_under_prefill", "ttft_under_prefill"):
        found[key] = ours["long_prompt"][key]
    for key in ("kv_live", "kv_preallocated"):
        found[key] = ours["mixed"][key]
    return {key: round(value, 3) for key, value in found.items()}


def table(result: Mapping[str, object]) -> str:
    """The result for people: engines side by side, then what stands for itself."""
    engines = {name: value for name, value in result.items() if isinstance(value, dict)}
    engines.pop("machine", None)
    rows = [["", *engines, "ratio"]]
    for n in CLIENTS:
        for whole, key in (("", "decode_tok_s"), ("whole_", "whole_tok_s")):
            values = [f"{engine[f'clients_{n}'][key]:.1f}" for engine in engines.values()]
            ratio = _shown(result.get(f"vs_llama_{whole}{n}"))
            rows.append([f"{n} clients, {key[:-6]} tok/s", *values, ratio])
    for key in ("cold_s", "warm_s"):
        values = [f"{engine['prefix'][key]:.3f}" for engine in engines.values()]
        rows.append([f"prefix, {key[:-2]} s", *values, _shown(result.get(f"vs_llama_{key[:-2]}"))])
    rows += [[key, _shown(value)] for key, value in result.items() if isinstance(value, float)]
    return "\n".join(f"{row[0]:28}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else ""


if __name__ == "__main__":
    main()
