"""What routing by prefix is worth: replicas on this machine, asked in turns and by their pages.

    python bench/ray_serve.py [--model demo] [--replicas 1,2,3] [--only shared,agent]
        [--spare 0,1,4]

The loads `shared` and `agent` of `serving.traffic.SHAPES`, in a closed loop, on a Ray cluster of
this machine, and of `edgewise serve` beside it; each with prompts that no replica has seen, medians
of the rounds. `known` is the share of prompt tokens that were not computed again, by the engines'
own numbers. Every engine computes with one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

# As a script, this file sees its own folder, not the root that the tools are named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ray
from ray import serve

import edgewise.ray
from serving.client import Server
from serving.figures import Seen, quantile
from serving.load import closed_loop
from serving.models import NAMES, PRESET, contest
from serving.servers import HOST, free_port, our_line, started
from serving.traffic import SHAPES, Lengths, Session, sessions

ALONE = ("prefix", 0)
LOADS = ("shared", "agent")
WARM = Lengths((8, 8), (4, 4))
STORE_BYTES = 200 << 20


@contextmanager
def cluster(port: int) -> Iterator[None]:
    """Ray on this machine, told to nobody."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_SERVE_LOG_TO_STDERR": "0"})
    began = perf_counter()
    with tempfile.TemporaryDirectory(prefix="ew-ray-", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=8,
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            _node_ip_address=HOST,
            _temp_dir=folder,
            log_to_driver=False,
        )
        serve.start(http_options={"host": HOST, "port": port})
        print(f"Ray is there after {perf_counter() - began:.1f} s.")
        try:
            yield
        finally:
            serve.shutdown()
            ray.shutdown()


def measured(server: Server, asked: list[Session], streams: int) -> tuple[float, ...]:
    """Of a load: the share of prompt tokens that was known, TTFT (median and 95 %) in milliseconds,
    and tokens of answers a second."""
    began = perf_counter()
    seen: list[Seen] = closed_loop(server, asked, streams)
    took = perf_counter() - began
    if failed := [one.error for one in seen if one.error]:
        raise RuntimeError(f"{len(failed)} of {len(seen)} failed: {failed[0]}")
    known = sum(one.cached for one in seen) / sum(one.prompt_tokens for one in seen)
    ttft = [one.ttft * 1000 for one in seen]
    tokens = sum(one.tokens for one in seen)
    return known * 100, quantile(ttft, 0.5), quantile(ttft, 0.95), tokens / took


@dataclass(frozen=True)
class Loads:
    """What every server is asked.

    Attributes:
        shapes: of `SHAPES`.
        streams: requests under way at a time.
        count: sessions of a load.
        rounds: how often each load comes, with other prompts.
        vocab: tokens.
    """

    shapes: list[str]
    streams: int
    count: int
    rounds: int
    vocab: int

    def show(self, server: Server, named: str, warm: int) -> None:
        """Ask a server, after as many short requests at a time as it has engines."""
        print(named)
        closed_loop(server, sessions(WARM, 8, self.vocab, "warm"), warm)
        for shape in self.shapes:
            rounds = [
                measured(server, self._asked(shape, f"{named} {turn}"), self.streams)
                for turn in range(self.rounds)
            ]
            known, middle, late, speed = map(median, zip(*rounds, strict=True))
            ttft = f"TTFT p50 {middle:4.0f} ms, p95 {late:4.0f} ms"
            print(f"  {shape:7} {known:4.1f} % known, {ttft}, {speed:5.0f} tokens/s", flush=True)

    def _asked(self, shape: str, seed: str) -> list[Session]:
        return sessions(SHAPES[shape].lengths, self.count, self.vocab, f"{shape} {seed}")


def ways(routings: str, spares: str) -> list[tuple[str, int]]:
    """What is compared: how replicas are chosen, `prefix` with each of `spares`."""
    several = [int(spare) for spare in spares.split(",")]
    return [
        (routing, spare)
        for routing in routings.split(",")
        for spare in (several if routing == "prefix" else several[:1])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=NAMES, default="demo")
    parser.add_argument("--replicas", default="1,2,3")
    parser.add_argument("--routing", default="turns,prefix")
    spare = edgewise.ray.ServeOptions.spare
    parser.add_argument("--spare", default=str(spare), help="of prefix, one or several")
    parser.add_argument("--only", default=",".join(LOADS), help="loads")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--requests", type=int, default=24, help="sessions of a load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--context", type=int, default=1024)
    args = parser.parse_args()
    model = contest(args.model, PRESET, args.context, None)
    loads = Loads(args.only.split(","), args.streams, args.requests, args.rounds, model.vocab)
    line, log = our_line(model.bundle, 1), model.bundle.with_suffix(".log")
    with started(line, model.bundle.name, "/ready", log) as (alone, _):
        loads.show(alone, "edgewise serve, one thread", 1)
    server = Server(HOST, free_port(), "bench")
    with cluster(server.port):
        for replicas in map(int, args.replicas.split(",")):
            for routing, spare in ways(args.routing, args.spare) if replicas > 1 else [ALONE]:
                options = edgewise.ray.ServeOptions(
                    name=server.model,
                    replicas=replicas,
                    routing=routing,
                    spare=spare,
                    cpus=0.5,
                    threads=1,
                    context=args.context,
                )
                began = perf_counter()
                serve.run(edgewise.ray.app(model.bundle, options), name="bench")
                said = f"there after {perf_counter() - began:.1f} s"
                named = f"{routing}, spare {spare}" if routing == "prefix" else routing
                loads.show(server, f"{replicas} replicas, {named}, {said}", replicas)
                serve.delete("bench")


if __name__ == "__main__":
    main()
