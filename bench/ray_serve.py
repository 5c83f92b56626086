"""What routing by prefix is worth: replicas on this machine, asked in turns and by their pages.

    python bench/ray_serve.py [--model demo] [--replicas 1,2,3] [--only shared,agent]

The loads `shared` and `agent` of `serving.traffic.SHAPES`, in a closed loop, on a Ray cluster of
this machine; each with prompts that no replica has seen. `known` is the share of prompt tokens that
were not computed again, by the engines' own numbers.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
from serving.traffic import SHAPES, Lengths, sessions

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
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
            log_to_driver=False,
        )
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        print(f"Ray is there after {perf_counter() - began:.1f} s.")
        try:
            yield
        finally:
            serve.shutdown()
            ray.shutdown()


def measured(server: Server, shape: str, streams: int, count: int, vocab: int, seed: str) -> str:
    """A line about one load."""
    asked = sessions(SHAPES[shape].lengths, count, vocab, seed)
    began = perf_counter()
    seen: list[Seen] = closed_loop(server, asked, streams)
    took = perf_counter() - began
    if failed := [one.error for one in seen if one.error]:
        return f"{len(failed)} failed: {failed[0]}"
    known = sum(one.cached for one in seen) / sum(one.prompt_tokens for one in seen)
    ttft = [one.ttft for one in seen]
    return (
        f"{known:6.1%} known, TTFT p50 {quantile(ttft, 0.5) * 1000:4.0f} ms, "
        f"p95 {quantile(ttft, 0.95) * 1000:4.0f} ms, "
        f"{sum(one.tokens for one in seen) / took:5.0f} tokens/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=NAMES, default="demo")
    parser.add_argument("--replicas", default="1,2,3")
    parser.add_argument("--routing", default="turns,prefix")
    parser.add_argument("--only", default=",".join(LOADS), help="loads")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--requests", type=int, default=24, help="sessions of a load")
    parser.add_argument("--context", type=int, default=1024)
    args = parser.parse_args()
    model = contest(args.model, PRESET, args.context, None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server("127.0.0.1", port, "bench")
    with cluster(port):
        for replicas in map(int, args.replicas.split(",")):
            for routing in args.routing.split(",") if replicas > 1 else ["prefix"]:
                options = edgewise.ray.ServeOptions(
                    name=server.model,
                    replicas=replicas,
                    routing=routing,
                    cpus=0.5,
                    door_cpus=0.1,
                    context=args.context,
                )
                began = perf_counter()
                serve.run(edgewise.ray.app(model.bundle, options), name="bench")
                print(f"{replicas} replicas, {routing}: {perf_counter() - began:.1f} s to start")
                closed_loop(server, sessions(WARM, 8, model.vocab, "warm"), replicas)
                for shape in args.only.split(","):
                    seed = f"{shape} {replicas} {routing}"
                    counts = args.streams, args.requests, model.vocab
                    line = measured(server, shape, *counts, seed)
                    print(f"  {shape:7} {line}", flush=True)
                serve.delete("bench")


if __name__ == "__main__":
    main()
