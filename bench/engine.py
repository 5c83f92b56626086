"""What the engine makes of many clients, beside llama.cpp in the same run where one is given.

    python bench/engine.py [--llama VENV] [--json FILE] [--only QUESTION,QUESTION] [--quick]
    python bench/engine.py --constrained [--json FILE] [--quick]

Clients that stream side by side, short prompts that come behind a long one, a long prompt that
comes in while others stream, with room in the KV memory and without, a prompt whose beginning is
known, and how much of the KV memory is in use: on a random-weight Qwen3-0.6B shape. What a token
takes of the engine's thread beside kernels: on the demo model. Medians over interleaved rounds.
Each sample waits for an idle machine and records what share of the processor time taken meanwhile
was its own. A sample below ``CLEAN`` shared the machine and is only counted where there is no
better one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from checkpoint import SHAPES
from constrained import WORDS, constrained, large_words
from engine_figures import clean, headline, summaries, table
from engine_questions import CLIENTS, CONTEXT, QUESTIONS, Question
from engines import BUILD, HERE, checkpoint, our_bundle, peer_command, peer_file, with_engines
from machine import busy_seconds, describe, wait_until_idle
from protocol import Answer, Command, Driver
from rounds import in_turn

TICK = 0.01  # seconds: the clock of the processor time that everybody takes
DEMO = HERE.parent / "examples/demo-model"


@dataclass(frozen=True)
class Effort:
    """How often to measure: wanted clean rounds, most rounds, seconds to wait for an idle machine.

    Slow questions are asked at most `most_of_slow` times.
    """

    rounds: int
    most: int
    rounds_of_slow: int
    most_of_slow: int
    idle_wait: float


FULL = Effort(rounds=5, most=12, rounds_of_slow=3, most_of_slow=5, idle_wait=20.0)
QUICK = Effort(rounds=1, most=1, rounds_of_slow=1, most_of_slow=1, idle_wait=0.0)


def main() -> None:
    args = arguments()
    if args.constrained:
        measure_constrained(args)
        return
    effort = QUICK if args.quick else FULL
    if args.most is not None:
        slow = min(args.most, effort.most_of_slow)
        effort = replace(effort, most=args.most, most_of_slow=slow)
    if args.wait is not None:
        effort = replace(effort, idle_wait=args.wait)
    BUILD.mkdir(parents=True, exist_ok=True)
    result: dict[str, object] = {"machine": describe(args.threads), "shape": args.shape}

    def measure(drivers: Mapping[str, Driver]) -> None:
        for driver in drivers.values():
            for clients in CLIENTS:
                driver.ask(f"clients {clients} 32 12")
        answers = ask_all(drivers, effort, args.only)
        figures = {name: summaries(got) for name, got in answers.items()}
        result.update({name: {**drivers[name].about, **of} for name, of in figures.items()})
        result.update(headline(figures))
        print(table(figures))

    with_engines(commands(args), measure)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def measure_constrained(args: argparse.Namespace) -> None:
    """Measure a batch under a schema beside the same batch free, see `constrained`."""
    bundle = args.bundle or shape_bundle(args, large_words(WORDS))
    tokens, rounds, masks = (16, 1, 50) if args.quick else (256, 7, 400)
    found = constrained(bundle, threads=args.threads, tokens=tokens, rounds=rounds, masks=masks)
    result = {"machine": describe(args.threads), "shape": args.shape, **found}
    print("\n".join(f"{name:24} {value:,.4g}" for name, value in found.items()))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama", type=Path, help="virtual environment with llama-cpp-python")
    parser.add_argument("--json", type=Path, help="where to write every number")
    parser.add_argument("--threads", type=int, default=2)
    long = [name for name, shape in SHAPES.items() if shape.context >= CONTEXT]
    parser.add_argument("--shape", choices=long, default="qwen3-0.6b")
    parser.add_argument("--bundle", type=Path, help=f"of that shape and --context {CONTEXT}")
    parser.add_argument(
        "--only",
        type=chosen,
        default=QUESTIONS,
        metavar="QUESTIONS",
        help=f"some of {', '.join(QUESTIONS)}; only engines that are asked are started",
    )
    parser.add_argument("--quick", action="store_true", help="one round, no waiting: a smoke test")
    parser.add_argument(
        "--constrained", action="store_true", help="measure answers under a schema beside free ones"
    )
    parser.add_argument(
        "--most", type=int, metavar="N", help="rounds at most, on a machine that is never idle"
    )
    parser.add_argument(
        "--wait", type=float, metavar="S", help="seconds to wait for an idle machine, each time"
    )
    return parser.parse_args()


def chosen(names: str) -> dict[str, Question]:
    """The questions of these names, separated by commas, in the order of `QUESTIONS`."""
    wanted = set(names.split(","))
    if unknown := wanted - QUESTIONS.keys():
        raise argparse.ArgumentTypeError(f"no questions: {', '.join(sorted(unknown))}")
    return {name: question for name, question in QUESTIONS.items() if name in wanted}


def commands(args: argparse.Namespace) -> dict[str, Command]:
    """How to start the engines that are asked."""
    asked = {name for question in args.only.values() for name in question.engines}
    makers = {"ours": our_command, "demo": demo_command}
    if args.llama:
        makers["peer"] = llama_command
    return {name: make(args) for name, make in makers.items() if name in asked}


def our_command(args: argparse.Namespace) -> Command:
    return clients_command(args.bundle or shape_bundle(args), args.threads)


def shape_bundle(args: argparse.Namespace, words: Iterable[str] = ()) -> Path:
    """The bundle of the shape that is measured; see `checkpoint.vocabulary` for `words`."""
    model = checkpoint(SHAPES[args.shape], words)
    folder = BUILD / f"{model.name}-q4-{CONTEXT}"
    return our_bundle(model, folder, "q4", "--context", str(CONTEXT))


def demo_command(args: argparse.Namespace) -> Command:
    return clients_command(our_bundle(DEMO, BUILD / "demo-q4", "q4"), args.threads)


def clients_command(bundle: Path, threads: int) -> Command:
    script = HERE / "ours_clients.py"
    return Command(Path(sys.executable), script, (str(bundle), "--threads", str(threads)))


def llama_command(args: argparse.Namespace) -> Command:
    file = peer_file(SHAPES[args.shape], args.llama)
    return peer_command(file, args.llama, args.threads, "--clients")


def ask_once(driver: Driver, question: str, clock: Callable[[], float] = busy_seconds) -> Answer:
    """An answer, with the share ``own`` of the processor time taken meanwhile that was its own."""
    before = clock()
    answer = driver.ask(question)
    return {**answer, "own": min(1.0, answer["cpu"] / max(clock() - before, TICK))}


def ask_all(
    drivers: Mapping[str, Driver],
    effort: Effort,
    questions: Mapping[str, Question] = QUESTIONS,
    ask: Callable[[Driver, str], Answer] = ask_once,
) -> dict[str, dict[str, list[Answer]]]:
    """Every answer, by engine and question.

    A question is asked until every engine has enough clean answers, or for the most rounds.
    """
    got: dict[str, dict[str, list[Answer]]] = {name: {} for name in drivers}
    for slow, rounds, most in (
        (False, effort.rounds, effort.most),
        (True, effort.rounds_of_slow, effort.most_of_slow),
    ):
        asked = {key: question for key, question in questions.items() if question.slow is slow}
        for turn in range(most):
            for key, question in asked.items():
                names = [name for name in question.engines if name in drivers]
                answers = [got[name].setdefault(key, []) for name in names]
                if turn >= rounds and all(len(clean(a)) >= rounds for a in answers):
                    continue
                for name in in_turn(names, turn):
                    idle = wait_until_idle(effort.idle_wait)
                    answer = ask(drivers[name], question.line)
                    got[name][key].append({**answer, "idle_before": idle})
                    print(f"\r{turn + 1}: {name} {key}      ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return got


if __name__ == "__main__":
    main()
