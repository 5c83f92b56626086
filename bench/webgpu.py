"""How fast WebGPU programs are on this machine's adapter, and how far from its memory's speed.

    python bench/webgpu.py [BUNDLE ...] [--json FILE] [--adapter N] [--programs ID ...] [--quick]

Without a bundle, the demo model and a random-weight model of 41 million parameters, both in q4.
Prints Markdown. Tokens a second are the generation loop's, with everything it does; floors are the
bytes that a step moves, by the plan's own cost, over what the device copies in a second.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from checkpoint import SHAPES, write_checkpoint
from edgewise_runtime.devices.wgpu.adapter import choose_adapter
from edgewise_runtime.format.bundle import Bundle
from gpu.clock import TimedGpu, bandwidth
from gpu.kernels import TimedDevice
from gpu.report import markdown
from gpu.speed import FULL, QUICK, measure_program, runnable
from machine import describe, describe_adapter, wait_until_idle

HERE = Path(__file__).parent
BUILD = HERE.parent / "build/bench"
IDLE_WAIT = 20.0  # seconds


def main() -> None:
    args = arguments()
    effort = QUICK if args.quick else FULL
    bundles = args.bundles or [compiled("demo"), compiled("small")]
    gpu = TimedGpu(choose_adapter(args.adapter))
    idle = wait_until_idle(0 if args.quick else IDLE_WAIT)
    result: dict[str, Any] = {
        "machine": describe(),
        "idle_before": idle,
        "adapter": describe_adapter(gpu.adapter),
        "bandwidth": bandwidth(gpu, effort.rounds),
        "speed": [],
    }
    gigabytes = max(result["bandwidth"]["copy_buffer"], result["bandwidth"]["copy_shader"])
    for path in bundles:
        bundle = Bundle.open(path)
        for program in runnable(gpu.features, bundle, args.programs):
            print(f"measuring {bundle.name}, {program}", file=sys.stderr)
            found = measure_program(TimedDevice(gpu), bundle, program, effort, gigabytes)
            result["speed"].append(found)
    print(markdown(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundles", nargs="*", type=Path, help="bundles with WebGPU programs")
    parser.add_argument("--json", type=Path, help="where to write every number")
    parser.add_argument("--adapter", type=int, help="which one, as `edgewise doctor` counts them")
    parser.add_argument("--programs", nargs="+", help="ids; default: all that the adapter runs")
    parser.add_argument("--quick", action="store_true", help="one short round: a smoke test")
    return parser.parse_args()


def compiled(name: str) -> Path:
    """The q4 bundle of the demo model or of a shape, compiled anew if the compiler is newer."""
    from edgewise_compiler.compile import compile_model

    bundle = BUILD / f"{name}-webgpu-q4"
    made = bundle / "bundle.json"
    newest = max(path.stat().st_mtime for path in (HERE.parent / "compiler").rglob("*.py"))
    if not made.exists() or made.stat().st_mtime < newest:
        compile_model(model_folder(name), bundle, targets=("webgpu",), quant="q4")
    return bundle


def model_folder(name: str) -> Path:
    """The checkpoint of the demo model, or a random one of a shape."""
    if name == "demo":
        return HERE.parent / "examples/demo-model"
    folder = BUILD / name
    if not (folder / "config.json").exists():
        print(f"writing a random {name}", file=sys.stderr)
        write_checkpoint(folder, SHAPES[name])
    return folder


if __name__ == "__main__":
    main()
