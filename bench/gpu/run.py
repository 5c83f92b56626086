"""Everything to know about a GPU, from what pack.py packed: see the README in that folder.

    PYTHONPATH=SITE:runtime:bench:. python3 bench/gpu/run.py PACKED [--device wgpu|cuda|vulkan]
        [--results DIR] [--adapter N] [--only kernels contract speed peer] [--shapes NAME ...]
        [--programs ID ...] [--quick]

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgewise_runtime.devices.base import Device
from edgewise_runtime.devices.cuda.gpu import cards
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.wgpu.adapter import adapters, choose_adapter
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from gpu import cuda, peer
from gpu.clock import TimedGpu, bandwidth
from gpu.contract import check_bundle
from gpu.fill import fill
from gpu.kernels import TimedDevice
from gpu.replay import Outcome, replay_all
from gpu.report import markdown
from gpu.speed import (
    FULL,
    FULL_CUDA,
    QUICK,
    QUICK_CUDA,
    Effort,
    TimedDevices,
    measure_program,
    runnable,
)
from machine import describe, describe_adapter

STAGES = ("kernels", "contract", "speed", "peer")


class Bench(Protocol):
    """What the stages ask of a device."""

    target: str

    def describe(self) -> dict[str, Any]:
        """The device, for the top of the results."""
        ...

    def replay(self, paths: Sequence[Path]) -> Iterator[Outcome]: ...

    def bandwidth(self, rounds: int) -> dict[str, float]: ...

    def device(self) -> Device:
        """As the engine uses it."""
        ...

    def timed(self) -> TimedDevices:
        """With a clock; opened anew where it was lost."""
        ...


class WgpuBench:
    """An adapter by wgpu-native."""

    target = "webgpu"

    def __init__(self, index: int | None) -> None:
        self._index = index
        self._gpu = TimedGpu(choose_adapter(index))

    def describe(self) -> dict[str, Any]:
        adapter = describe_adapter(self._gpu.adapter)
        return {"adapters": [str(found) for found in adapters()], "adapter": adapter}

    def replay(self, paths: Sequence[Path]) -> Iterator[Outcome]:
        return replay_all(self._gpu, paths)

    def bandwidth(self, rounds: int) -> dict[str, float]:
        return bandwidth(self._gpu, rounds)

    def device(self) -> Device:
        return WgpuDevice(self._index)

    def timed(self) -> TimedDevices:
        if self._gpu.lost():
            self._gpu = TimedGpu(self._gpu.adapter)
        return TimedDevice(self._gpu)


class CudaBench:
    """An NVIDIA GPU by its driver."""

    target = "cuda"

    def __init__(self, index: int | None) -> None:
        self._device = cuda.TimedCuda(index)

    def describe(self) -> dict[str, Any]:
        card, features = self._device.card, sorted(self._device.features())
        adapter = {"name": card.name, "kind": f"sm_{card.arch}", "backend": "CUDA"}
        adapter |= {"driver": card.driver}
        return {
            "adapters": [str(found) for found in cards()],
            "adapter": {**adapter, "features": features, "memory": card.memory},
        }

    def replay(self, paths: Sequence[Path]) -> Iterator[Outcome]:
        return cuda.replay_all(self._device, paths)

    def bandwidth(self, rounds: int) -> dict[str, float]:
        size = min(cuda.COPY_BYTES, self._device.card.memory // 16)
        return cuda.bandwidth(self._device, rounds, size)

    def device(self) -> Device:
        return self._device

    def timed(self) -> TimedDevices:
        return self._device


class VulkanBench:
    """A physical device by Vulkan. Nothing here times its launches: its contract is checked, and
    its generation loop measured."""

    target = "vulkan"

    def __init__(self, index: int | None) -> None:
        self._device = VulkanDevice(index)

    def describe(self) -> dict[str, Any]:
        adapter = self._device.adapter
        about = {"name": adapter.name, "kind": adapter.kind, "backend": "Vulkan"}
        about |= {"driver": self._device.identity}
        return {"adapter": {**about, "features": sorted(self._device.features())}}

    def replay(self, paths: Sequence[Path]) -> Iterator[Outcome]:
        return iter(())

    def bandwidth(self, rounds: int) -> dict[str, float]:
        return {}

    def device(self) -> Device:
        return self._device

    def timed(self) -> TimedDevices:
        return self._device


BENCHES: Mapping[str, type[WgpuBench] | type[CudaBench] | type[VulkanBench]] = {
    "wgpu": WgpuBench,
    "cuda": CudaBench,
    "vulkan": VulkanBench,
}

EFFORTS = {"wgpu": (FULL, QUICK), "cuda": (FULL_CUDA, QUICK_CUDA), "vulkan": (FULL, QUICK)}


class Run:
    """The stages of one run and the results so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._packed: Path = args.packed
        full, quick = EFFORTS[args.device]
        self._effort: Effort = quick if args.quick else full
        self._results: Path = args.results or args.packed / "results"
        self._results.mkdir(parents=True, exist_ok=True)
        self._bench: Bench = BENCHES[args.device](args.adapter)
        self.result: dict[str, Any] = {
            "machine": describe(),
            **self._bench.describe(),
            "problems": [],
        }

    def run(self) -> bool:
        """Every stage asked for; whether all went well."""
        stages: Mapping[str, Callable[[], None]] = {
            "kernels": self._kernels,
            "contract": self._contract,
            "speed": self._speed,
            "peer": self._peer,
        }
        for name in self._args.only:
            self._try(name, stages[name])
        failed = [c for c in self.result.get("contract", ()) if not c["passed"]]
        return not (failed or self.result["problems"] or self._wrong_kernels())

    def _kernels(self) -> None:
        found = list(self._bench.replay(sorted((self._packed / "kernels").glob("*.npz"))))
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
        device = self._bench.device()
        expected = np.load(self._packed / "demo-logits.npy", allow_pickle=False)
        checks = self.result.setdefault("contract", [])
        with self._unpacked(self._packed / "demo.zip") as demo:
            for check in check_bundle(device, Bundle.open(demo), expected):
                checks.append(asdict(check))
                self._save()

    def _speed(self) -> None:
        self.result["bandwidth"] = self._bench.bandwidth(self._effort.rounds)
        self.result["speed"] = []
        if "demo" in self._args.shapes:
            self._try("demo", self._measure_demo)
        for name in self._args.shapes:
            if name != "demo":
                self._try(name, lambda name=name: self._measure_filled(name))  # type: ignore[misc]

    def _measure_demo(self) -> None:
        with self._unpacked(self._packed / "demo.zip") as demo:
            self._measure(demo)

    def _measure_filled(self, name: str) -> None:
        with self._unpacked(archives(self._packed, self._bench.target)[name]) as bundle:
            start = time.perf_counter()
            fill(bundle)
            _tell(f"{name}: weights at random in {time.perf_counter() - start:.1f} s")
            self._measure(bundle)

    @contextmanager
    def _unpacked(self, packed: Path) -> Iterator[Path]:
        """A folder with what an archive holds, for as long as it is looked at."""
        with tempfile.TemporaryDirectory(dir=self._args.work) as folder:
            with zipfile.ZipFile(packed) as archive:
                archive.extractall(folder)
            yield Path(folder)

    def _measure(self, path: Path) -> None:
        bundle = Bundle.open(path)
        features = self._bench.device().features()
        for program in runnable(features, bundle, self._args.programs, self._bench.target):
            self._try(
                f"{bundle.name} {program}",
                lambda program=program: self._measure_program(bundle, program),  # type: ignore[misc]
            )

    def _measure_program(self, bundle: Bundle, program: str) -> None:
        rates = self.result["bandwidth"]
        copies = (rate for name, rate in rates.items() if name.startswith("copy"))
        gigabytes = max(copies, default=0.0)
        found = measure_program(self._bench.timed(), bundle, program, self._effort, gigabytes)
        self.result["speed"].append(found)

    def _peer(self) -> None:
        """PyTorch in float16, where it is there and has the GPU."""
        if self._args.device != "cuda" or not peer.there():
            return
        self.result["peer"] = []
        for shape in peer.shapes(self._args.shapes):
            self._try(
                f"PyTorch {shape.name}",
                lambda shape=shape: self.result["peer"].extend(  # type: ignore[misc]
                    peer.measure(shape, self._effort, quick=self._args.quick)
                ),
            )

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


def archives(packed: Path, target: str) -> dict[str, Path]:
    """The programs that were packed for a target by shape, the smallest first."""
    folder = packed / "programs" if target == "webgpu" else packed / "programs" / target
    found = sorted(folder.glob("*.zip"), key=lambda path: path.stat().st_size)
    return {path.stem: path for path in found}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packed", type=Path, help="the folder that pack.py wrote")
    parser.add_argument("--results", type=Path, help="folder; default: PACKED/results")
    parser.add_argument("--work", type=Path, help="folder for random weights; default: temporary")
    parser.add_argument("--device", choices=BENCHES, default="wgpu", help="default: wgpu")
    parser.add_argument("--adapter", type=int, help="which one; default: the best")
    parser.add_argument("--only", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--shapes", nargs="+", help="default: all, the smallest first")
    parser.add_argument("--programs", nargs="+", help="ids; default: all that the device runs")
    parser.add_argument("--quick", action="store_true", help="one short round: a smoke test")
    args = parser.parse_args()
    args.shapes = args.shapes or ["demo", *archives(args.packed, BENCHES[args.device].target)]
    return args


def main() -> None:
    run = Run(arguments())
    passed = run.run()
    print(markdown(run.result))
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
