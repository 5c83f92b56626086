"""Load on `edgewise serve` from end to end, beside llama.cpp's server where one is given.

    python bench/serve.py [--llama PREFIX] [--json FILE] [--plots DIR] [--only SHAPE,SHAPE]

Five shapes of traffic over OpenAI's streaming API, see `serving.traffic.SHAPES`: in a closed loop
of some streams each, and in an open loop whose arrivals are planned from a seed. PREFIX/bin has
llama.cpp's llama-server, and llama-quantize for models that are no GGUF file. Servers take turns
in going first, and every round has prompts that none has seen. Figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# As a script, this file sees its own folder, not the root that the tools are named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engines import BUILD
from machine import busy_seconds, describe, wait_until_idle
from rounds import CLEAN, in_turn
from serving.client import Server
from serving.figures import Seen, Slo, medians, ratios, summary
from serving.load import closed_loop, open_loop
from serving.models import NAMES, Contest, contest
from serving.plot import OURS
from serving.report import PEER, as_json, plots, table
from serving.servers import cpu_seconds, our_line, peer_line, started
from serving.traffic import SHAPES, Lengths, Session, arrivals, sessions

WARM = Lengths((8, 8), (4, 4))

Figures = dict[str, float]
Running = tuple[Server, int]
"""A server, and the id of its process."""


@dataclass(frozen=True)
class Load:
    """One load: a shape, and a number of streams, or sessions a second."""

    shape: str
    loop: str
    value: float

    @property
    def name(self) -> str:
        """Such as ``short closed 4``."""
        return f"{self.shape} {self.loop} {self.value:g}"

    def sessions(self, usual: int, vocab: int, seed: str) -> list[Session]:
        """What is asked, the same for the same seed."""
        shape = SHAPES[self.shape]
        count = max(1, round(usual * shape.share))
        return sessions(shape.lengths, count, vocab, f"{seed} {self.name}")

    def put(self, server: Server, asked: list[Session], seed: str) -> list[Seen]:
        """Load a server, and say what its clients saw."""
        if self.loop == "closed":
            return closed_loop(server, asked, int(self.value))
        planned = arrivals(self.value, len(asked), seed, SHAPES[self.shape].burst)
        return open_loop(server, asked, planned)


def main() -> None:
    args = arguments()
    BUILD.mkdir(parents=True, exist_ok=True)
    model = contest(args.model, args.quant, args.context, args.llama, args.bundle)
    lines = {OURS: (our_line(model.bundle, args.threads), model.bundle.name, "/v1/models")}
    if model.file is not None:
        line = peer_line(args.llama, model.file, args.threads, model.context, args.llama_args)
        lines[PEER] = (line, model.file.stem, "/health")
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(started(*of, BUILD / f"serve-{name}.log"))
            for name, of in lines.items()
        }
        measured = measure(servers, list(loads(args, model)), model.vocab, args)
    stored = dict(zip(lines, model.weights, strict=False))
    print("\n".join(f"{name}: {weights}" for name, weights in stored.items()))
    print(table(measured))
    result = {
        "machine": describe(args.threads),
        "model": args.model,
        "weights": stored,
        "lines": {name: [Path(of[0][0]).name, *of[0][1:]] for name, of in lines.items()},
        "slo": {"ttft_s": args.slo.ttft, "itl_s": args.slo.itl},
        "seed": args.seed,
        "loads": measured,
    }
    if args.json:
        args.json.write_text(json.dumps(as_json(result), indent=1, allow_nan=False) + "\n")
    if args.plots:
        args.plots.mkdir(parents=True, exist_ok=True)
        for name, drawn in plots(measured):
            (args.plots / name).write_text(drawn)


def arguments(line: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama", type=Path, metavar="PREFIX", help="has bin/llama-server")
    parser.add_argument(
        "--llama-args", type=str.split, default=[], metavar="TEXT", help="more for llama-server"
    )
    parser.add_argument("--json", type=Path, help="where to write every number")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="where to draw SVGs")
    parser.add_argument("--only", type=chosen, default=list(SHAPES), metavar="SHAPES")
    parser.add_argument("--streams", type=numbers, default=[1, 4, 8], help="closed loops")
    parser.add_argument(
        "--rates", type=numbers, default=[1, 2], help="open loops, sessions a second"
    )
    parser.add_argument("--requests", type=int, default=16, help="sessions of a load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--slo", type=slo, default=Slo(2.0, 0.1), metavar="TTFT,ITL", help="ms")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--wait", type=float, default=10.0, help="seconds for an idle machine")
    parser.add_argument(
        "--model", default="smollm2", metavar="NAME|GGUF", help=f"a file, or of {', '.join(NAMES)}"
    )
    parser.add_argument("--quant", help="edgewise's preset; default: the file's codes, else q4")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--bundle", type=Path, help="compiled already, of that model")
    return parser.parse_args(line)


def loads(args: argparse.Namespace, model: Contest) -> Iterator[Load]:
    """What is measured, in order; shapes that the model's context does not hold are left out."""
    for shape in args.only:
        if SHAPES[shape].lengths.longest > model.context:
            print(f"{shape}: left out, the model has {model.context} tokens", file=sys.stderr)
            continue
        yield from (Load(shape, "closed", streams) for streams in args.streams)
        yield from (Load(shape, "open", rate) for rate in args.rates)


def measure(
    servers: Mapping[str, Running], asked: list[Load], vocab: int, args: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Every round of every load, and what they come to."""
    for server, _ in servers.values():
        closed_loop(server, sessions(WARM, 2, vocab, "warm"), 1)
    rounds: dict[str, dict[str, list[Figures]]] = {
        load.name: {name: [] for name in servers} for load in asked
    }
    with progress() as bar:
        task = bar.add_task("", total=args.rounds * len(asked) * len(servers))
        for turn in range(args.rounds):
            for load in asked:
                seed = f"{args.seed} {turn}"
                prompts = load.sessions(args.requests, vocab, seed)
                for name in in_turn(servers, turn):
                    bar.update(task, description=f"{load.name}: {name}", refresh=True)
                    idle = wait_until_idle(args.wait)
                    server, process = servers[name]
                    work = partial(load.put, server, prompts, seed)
                    found, failures = watched(work, process, args.slo)
                    rounds[load.name][name].append({**found, "idle_before": idle})
                    for failure in failures:
                        bar.console.print(f"{load.name}: {name}: {failure[:200]}", markup=False)
                    bar.advance(task)
    return {load: summarized(of) for load, of in rounds.items()}


def progress() -> Progress:
    """A bar that is drawn between loads: a thread that draws it would take of the machine."""
    columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), auto_refresh=False
    )


def watched(
    work: Callable[[], list[Seen]], process: int, slo: Slo
) -> tuple[Figures, Sequence[str]]:
    """Figures of a load, and its kinds of failures.

    Among the figures are ``client_cores``, the processors that the load itself kept busy, and
    ``own``, the share of all processor time taken that was the server's or the load's.
    """
    before = time.perf_counter(), busy_seconds(), cpu_seconds(process), time.process_time()
    seen = work()
    after = time.perf_counter(), busy_seconds(), cpu_seconds(process), time.process_time()
    wall, busy, server, client = (b - a for a, b in zip(before, after, strict=True))
    figures = {
        **summary(seen, slo),
        "server_cpu_s": server,
        "client_cpu_s": client,
        "client_cores": client / wall,
        "own": min(1.0, (server + client) / max(busy, 0.01)),
    }
    return figures, sorted({one.error for one in seen if one.error})


def summarized(of: Mapping[str, list[Figures]]) -> dict[str, Any]:
    """Medians of each server's rounds that shared the machine with nobody, or of all where there is
    none such, and ours over the peer's."""
    clean = {name: [one for one in rounds if one["own"] >= CLEAN] for name, rounds in of.items()}
    found: dict[str, Any] = {name: medians(clean[name] or rounds) for name, rounds in of.items()}
    beside = {"ratios": ratios(found[OURS], found[PEER])} if PEER in found else {}
    counts = {name: len(rounds) for name, rounds in clean.items()}
    return {**found, **beside, "clean": counts, "rounds": dict(of)}


def chosen(names: str) -> list[str]:
    """Shapes by name, separated by commas, in the order of `SHAPES`."""
    wanted = set(names.split(","))
    if unknown := wanted - SHAPES.keys():
        raise argparse.ArgumentTypeError(f"no shapes of traffic: {', '.join(sorted(unknown))}")
    return [name for name in SHAPES if name in wanted]


def numbers(text: str) -> list[float]:
    """Numbers above 0, separated by commas."""
    try:
        found = [float(one) for one in text.split(",") if one]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is no list of numbers") from error
    if not all(0 < one < float("inf") for one in found):
        raise argparse.ArgumentTypeError(f"{text} has a number that is not above 0")
    return found


def slo(text: str) -> Slo:
    """Two numbers of milliseconds."""
    found = numbers(text)
    if len(found) != 2:
        raise argparse.ArgumentTypeError(f"{text} is not TTFT,ITL")
    return Slo(found[0] / 1e3, found[1] / 1e3)


if __name__ == "__main__":
    main()
