"""Everything to know about a GPU, from what pack.py packed: see the README in that folder.

    PYTHONPATH=SITE:runtime:bench:. python3 bench/gpu/run.py PACKED [--results DIR] [--adapter N]
        [--only kernels contract speed] [--shapes NAME ...] [--programs ID ...] [--quick]

Needs neither a network nor the compiler. After every stage the results so far are written as JSON
and Markdown, so a run that is cut off leaves what it had.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from edgewise_runtime.devices.wgpu.adapter import adapters, choose_adapter
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from gpu.clock import TimedGpu, bandwidth
from gpu.contract import check_bundle
from gpu.fill import fill
from gpu.replay import replay_all
from gpu.report import markdown
from gpu.speed import FULL, QUICK, Effort, measure_program, runnable
from machine import describe, describe_adapter

STAGES = ("kernels", "contract", "speed")


class Run:
    """The stages of one run and the results so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._packed: Path = args.packed
        self._effort: Effort = QUICK if args.quick else FULL
        self._results: Path = args.results or args.packed / "results"
        self._results.mkdir(parents=True, exist_ok=True)
        adapter = choose_adapter(args.adapter)
        self._gpu = TimedGpu(adapter)
        self.result: dict[str, Any] = {
            "machine": describe(),
            "adapters": [str(found) for found in adapters()],
            "adapter": describe_adapter(adapter),
            "problems": [],
        }

    def run(self) -> bool:
        """Every stage asked for; whether all went well."""
        stages: Mapping[str, Callable[[], None]] = {
            "kernels": self._kernels,
            "contract": self._contract,
            "speed": self._speed,
        }
        for name in self._args.only:
            self._try(name, stages[name])
        failed = [c for c in self.result.get("contract", ()) if not c["passed"]]
        return not (failed or self.result["problems"] or self._wrong_kernels())

    def _kernels(self) -> None:
        found = list(replay_all(self._gpu, sorted((self._packed / "kernels").glob("*.npz"))))
        self.result["kernels"] = {
            "calls": len(found),
            "passed": sum(outcome.passed for outcome in found),
            "kernels": len({outcome.kernel for outcome in found}),
            "largest_error": max(
                (o.error / o.tolerance for o in found if o.passed and o.tolerance), default=0.0
            ),
            "failed": [asdict(outcome) for outcome in found if not outcome.passed],
        }

    def _contract(self) -> None:
        device = WgpuDevice(self._args.adapter)
        expected = np.load(self._packed / "demo-logits.npy", allow_pickle=False)
        checks = self.result.setdefault("contract", [])
        for check in check_bundle(device, Bundle.open(self._packed / "demo"), expected):
            checks.append(asdict(check))
            self._save()

    def _speed(self) -> None:
        self.result["bandwidth"] = bandwidth(self._gpu, self._effort.rounds)
        self.result["speed"] = []
        if "demo" in self._args.shapes:
            self._try("demo", lambda: self._measure(self._packed / "demo"))
        for name in self._args.shapes:
            if name != "demo":
                self._try(name, lambda name=name: self._measure_filled(name))  # type: ignore[misc]

    def _measure_filled(self, name: str) -> None:
        with tempfile.TemporaryDirectory(dir=self._args.work) as folder:
            with zipfile.ZipFile(self._packed / "programs" / f"{name}.zip") as archive:
                archive.extractall(folder)
            start = time.perf_counter()
            fill(Path(folder))
            _tell(f"{name}: weights at random in {time.perf_counter() - start:.1f} s")
            self._measure(Path(folder))

    def _measure(self, path: Path) -> None:
        bundle = Bundle.open(path)
        for program in runnable(self._gpu.features, bundle, self._args.programs):
            self._try(
                f"{bundle.name} {program}",
                lambda program=program: self._measure_program(bundle, program),  # type: ignore[misc]
            )

    def _measure_program(self, bundle: Bundle, program: str) -> None:
        if self._gpu.lost():
            self._gpu = TimedGpu(self._gpu.adapter)
        rates = self.result["bandwidth"]
        found = measure_program(self._gpu, bundle, program, self._effort, rates)
        self.result["speed"].append(found)

    def _try(self, name: str, stage: Callable[[], None]) -> None:
        """Run a stage; what goes wrong is a result, and the next stage is tried all the same."""
        start = time.perf_counter()
        try:
            stage()
        except Exception as problem:
            self.result["problems"].append(f"{name}: {type(problem).__name__}: {problem}")
        self._save()
        _tell(f"{name}: {time.perf_counter() - start:.1f} s")

    def _wrong_kernels(self) -> bool:
        found = self.result.get("kernels")
        return found is not None and found["passed"] < found["calls"]

    def _save(self) -> None:
        text = json.dumps(self.result, indent=1) + "\n"
        (self._results / "results.json").write_text(text, "utf-8")
        (self._results / "results.md").write_text(markdown(self.result), "utf-8")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def shapes_in(packed: Path) -> list[str]:
    """What there is to measure, the smallest first."""
    archives = (packed / "programs").glob("*.zip")
    return ["demo", *(path.stem for path in sorted(archives, key=lambda path: path.stat().st_size))]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packed", type=Path, help="the folder that pack.py wrote")
    parser.add_argument("--results", type=Path, help="folder; default: PACKED/results")
    parser.add_argument("--work", type=Path, help="folder for random weights; default: temporary")
    parser.add_argument("--adapter", type=int, help="which one; default: the best")
    parser.add_argument("--only", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--shapes", nargs="+", help="default: all, the smallest first")
    parser.add_argument("--programs", nargs="+", help="ids; default: all that the adapter runs")
    parser.add_argument("--quick", action="store_true", help="one short round: a smoke test")
    args = parser.parse_args()
    args.shapes = args.shapes or shapes_in(args.packed)
    return args


def main() -> None:
    run = Run(arguments())
    passed = run.run()
    print(markdown(run.result))
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
