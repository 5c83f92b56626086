"""What a plan costs, from the plan alone: bytes, operations and launches, hence roofline time.

No clock is involved but in `measure_bandwidth`, so a test can hold a plan's cost to a number.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

import numpy as np

from edgewise_runtime.cpuid import default_threads
from edgewise_runtime.errors import PlanError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.plan import Kernel, Plan

BANDWIDTH_BYTES = 256 << 20
"""What `measure_bandwidth` reads in one pass: more than most machines' caches hold."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """One launch: bytes it reads and writes, and floating point or integer operations."""

    kernel: str
    label: str
    bytes: int
    flops: int

    def seconds(self, gigabytes: float, gigaflops: float) -> float:
        """Roofline time at so many GB (1e9 bytes) and GFLOP per second: the slower of the two."""
        return max(self.bytes / gigabytes, self.flops / gigaflops) / 1e9


@dataclass(frozen=True, slots=True)
class KernelCost:
    """All launches of one kernel in a plan."""

    kernel: str
    launches: int
    bytes: int
    flops: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The cost of running a plan once at given symbol values."""

    plan: str
    steps: tuple[StepCost, ...]

    @property
    def launches(self) -> int:
        return len(self.steps)

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)

    @property
    def flops(self) -> int:
        return sum(step.flops for step in self.steps)

    def seconds(self, gigabytes: float, gigaflops: float) -> float:
        """Roofline time: launches one after another, each at its own bound."""
        return sum(step.seconds(gigabytes, gigaflops) for step in self.steps)

    def by_kernel(self, gigabytes: float, gigaflops: float) -> tuple[KernelCost, ...]:
        """Sums per kernel, the slowest by roofline time first."""
        names = dict.fromkeys(step.kernel for step in self.steps)
        groups = {name: [s for s in self.steps if s.kernel == name] for name in names}
        costs = (
            KernelCost(
                kernel=name,
                launches=len(steps),
                bytes=sum(step.bytes for step in steps),
                flops=sum(step.flops for step in steps),
                seconds=sum(step.seconds(gigabytes, gigaflops) for step in steps),
            )
            for name, steps in groups.items()
        )
        return tuple(sorted(costs, key=lambda cost: (-cost.seconds, cost.kernel)))


def plan_cost(plan: Plan, values: Mapping[str, int]) -> PlanCost:
    """The cost of a plan at these symbol values; ``kv`` is the tokens of history per sequence.

    A kernel that states no cost is charged every byte of its arguments, twice where it both reads
    and writes them, and no operations.

    Raises:
        PlanError: ``plan.symbol`` for a symbol without a value, ``plan.range`` for one out of the
            plan's bounds.
    """
    for name, (low, high) in plan.ranges.items():
        if name in values and not low <= values[name] <= high:
            message = f"Plan {plan.name!r}: {name!r} = {values[name]} is outside {low}..{high}."
            raise PlanError(message, code="plan.range")
    costs = {name: _kernel_cost(kernel, values) for name, kernel in plan.kernels.items()}
    steps = (StepCost(step.kernel, step.label, *costs[step.kernel]) for step in plan.steps)
    return PlanCost(plan.name, tuple(steps))


def _kernel_cost(kernel: Kernel, values: Mapping[str, int]) -> tuple[int, int]:
    if kernel.cost is not None:
        cost = kernel.cost
        return ex.evaluate(cost.bytes, values), ex.evaluate(cost.flops, values)
    moved = sum(ex.evaluate(arg.bytes, values) * (arg.reads + arg.writes) for arg in kernel.args)
    return moved, 0


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """GB/s (1e9 bytes) of the fastest pass over memory, and of the median pass.

    On a machine shared with others the two lie far apart: the best is what the memory can do, the
    median what it gave meanwhile.
    """

    best: float
    median: float


def measure_bandwidth(seconds: float = 0.3, threads: int | None = None) -> Bandwidth:
    """How fast this machine's memory is read by all threads together.

    Each thread takes the maximum of its own array again and again, which NumPy does faster than
    memory delivers. Takes 256 MiB of memory for about `seconds`.
    """
    count = default_threads() if threads is None else threads
    parts = [np.ones(BANDWIDTH_BYTES // 4 // count, dtype=np.int32) for _ in range(count)]
    read = sum(part.nbytes for part in parts)
    passes: list[float] = []
    with ThreadPoolExecutor(count) as pool:
        end = time.perf_counter() + seconds
        while True:
            start = time.perf_counter()
            list(pool.map(np.max, parts))
            now = time.perf_counter()
            passes.append(now - start)
            if now >= end:
                return Bandwidth(read / min(passes) / 1e9, read / median(passes) / 1e9)
