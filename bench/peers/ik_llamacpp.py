"""ik_llama.cpp behind the benchmark's protocol: the llama-bench of a build, started each time.

    ik_llamacpp.py BUILD/bin/llama-bench MODEL.gguf --threads 2

Weights are repacked and attention is flash attention, which is how it is fastest. The tool draws no
tokens and decodes one sequence only. Its seconds are its own, without loading; what is measured
from outside, the processor time of the whole process, says how much of the machine it had.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess

from machine import busy_seconds
from protocol import Answer, listen

FLAGS = ("-r", "1", "-rtr", "1", "-fa", "1", "-o", "json")
TICK = 0.01  # seconds: the clock of the processor time that everybody takes


class LlamaBench:
    """Asks the tool one question a call."""

    def __init__(self, tool: str, model: str, threads: int) -> None:
        self._command = [tool, "-m", model, "-t", str(threads), *FLAGS]

    def prefill(self, tokens: int) -> Answer:
        """The prompt alone."""
        return self._ask("-p", str(tokens), "-n", "0")

    def decode(self, batch: int, context: int, steps: int) -> Answer:
        """Steps after a prompt that is not timed; of one sequence."""
        if batch != 1:
            raise SystemExit(f"llama-bench decodes one sequence, not {batch}")
        return self._ask("-p", "0", "-n", "0", "-gp", f"{context},{steps}")

    def _ask(self, *question: str) -> Answer:
        busy, own = busy_seconds(), _children()
        done = subprocess.run([*self._command, *question], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"llama-bench ended with {done.returncode}: {done.stderr[-2000:]}")
        taken = _children() - own
        share = min(1.0, taken / max(busy_seconds() - busy, taken, TICK))
        return {"seconds": read_seconds(done.stdout), "util": share}


def read_seconds(output: str) -> float:
    """Of the one test in the tool's JSON, before which it may have said other things."""
    start = output.find("[\n")
    (test,) = json.loads(output[max(start, 0) :])
    (nanoseconds,) = test["samples_ns"]
    return float(nanoseconds) / 1e9


def _children() -> float:
    """Processor seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    bench = LlamaBench(args.tool, args.model, args.threads)
    listen({"engine": "ik_llama.cpp"}, {"prefill": bench.prefill, "decode": bench.decode})


if __name__ == "__main__":
    main()
