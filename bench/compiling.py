"""What compiling a large model takes: memory of all its processes, and time, phase by phase.

    python bench/compiling.py [--shape llama-3.1-8b] [--target cpu,webgpu] [--quant q4] [--out DIR]

The checkpoint has random weights and holes (`sparse.py`). `edgewise compile` runs as a person runs
it, without a terminal. Memory is what Linux counts as resident, twenty times a second: of the
compiler alone its own maximum (VmHWM), and of the command, the compiler and what it starts together
the largest sum, in which what they share counts twice.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from checkpoint import SHAPES
from machine import describe
from sparse import write_sparse

INTERVAL_S = 0.05
WORKER = b"edgewise_compiler.worker"


@dataclass
class Peak:
    """The most that processes held, bytes.

    Attributes:
        compiler: the process that compiles, by its own account.
        together: all processes of the command.
        anonymous: of ``together`` when it was largest, what is no file's: what no file gives back.
        seconds: from the start to the end.
        said: what the command printed, line by line.
    """

    compiler: int = 0
    together: int = 0
    anonymous: int = 0
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)


def watch(command: list[str]) -> Peak:
    """Run a command to its end, and see what it and its descendants hold.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    peak, begun = Peak(), time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        while process.poll() is None:
            found = [status for pid in _tree(process.pid) for status in _status(pid)]
            total = sum(status["VmRSS"] for status in found)
            if total > peak.together:
                peak.together = total
                peak.anonymous = sum(status["RssAnon"] for status in found)
            compilers = (status["VmHWM"] for status in found if status["compiler"])
            peak.compiler = max(peak.compiler, *compilers, 0)
            time.sleep(INTERVAL_S)
        output = process.stdout.read() if process.stdout else ""
    peak.seconds = time.perf_counter() - begun
    peak.said = output.splitlines()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return peak


def _tree(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            text = children.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in text.split():
            yield from _tree(int(child))


def _status(pid: int) -> Iterator[dict[str, int]]:
    """What a process holds, bytes, and whether it is the compiler; nothing once it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        compiler = WORKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return
    found = {name: int(kib) << 10 for name, kib in re.findall(r"(\w+):\s+(\d+) kB", text)}
    if "VmRSS" in found:
        yield found | {"compiler": compiler}


def main() -> None:
    args = arguments()
    out: Path = args.out
    checkpoint = out / args.shape
    if not (checkpoint / "config.json").exists():
        stored = write_sparse(checkpoint, SHAPES[args.shape])
        print(f"{checkpoint}: {stored:,} bytes of weights", flush=True)
    bundle = out / f"{args.shape}-{args.quant}"
    shutil.rmtree(bundle, ignore_errors=True)
    command = [sys.executable, "-m", "edgewise.cli", "compile", str(checkpoint), "-o", str(bundle)]
    command += ["--target", args.target, "--quant", args.quant, *args.options]
    peak = watch(command)
    result = {"machine": describe(), "command": command[2:], **asdict(peak)}
    print(json.dumps(result, indent=2))
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2), "utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.1-8b")
    parser.add_argument("--target", default="cpu,webgpu")
    parser.add_argument("--quant", default="q4")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("options", nargs="*", help="after --: more options of edgewise compile")
    return parser.parse_args()


if __name__ == "__main__":
    main()
