"""Each kernel of a plan by itself: its launches repeated in one pass, and the bytes they move.

The program is a loaded one, so weights are the bundle's and bind groups those of the runtime. What
the other buffers hold is plausible rather than right. Launches of one kernel go through the weights
of all layers in turn, so that what is larger than a cache is read from memory, as in a real step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from edgewise_runtime.cost import plan_cost
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.devices.wgpu.binding import Launch
from edgewise_runtime.devices.wgpu.device import WgpuDevice, WgpuProgram
from edgewise_runtime.engine.step_buffers import (
    eos_array,
    row_arrays,
    sampling_arrays,
    step_array,
)
from edgewise_runtime.engine.table_rows import Line, table_array
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.state import paged_state, pages_for
from gpu.clock import Clock, TimedGpu
from steps import DEFAULTS

LEAST_SECONDS, MOST_LAUNCHES = 0.05, 512
"""A sample repeats a kernel until it takes so long, within reason."""

NEVER = 1 << 20


@dataclass(frozen=True)
class Work:
    """One step to measure: ``operation`` with so many rows, and sequences of ``kv`` tokens each."""

    operation: str
    rows: int
    sequences: int
    kv: int

    @property
    def symbols(self) -> dict[str, int]:
        """The step symbols; ``t`` counts what this step appends."""
        reach = self.kv + self.rows // self.sequences
        return {"n": self.rows, "b": self.sequences, "r": self.sequences, "t": reach}


@dataclass(frozen=True)
class KernelTime:
    """A kernel in one step: its launches, their bytes and operations by the plan, and seconds.

    ``seconds`` is the median of the rounds, ``low`` and ``high`` the fastest and the slowest.
    """

    kernel: str
    label: str
    launches: int
    bytes: int
    flops: int
    seconds: float
    low: float
    high: float

    @property
    def gigabytes(self) -> float:
        """GB/s (1e9 bytes)."""
        return self.bytes / self.seconds / 1e9

    @property
    def gigaflops(self) -> float:
        """Operations, 1e9 a second."""
        return self.flops / self.seconds / 1e9


class Labelled(Protocol):
    """A launch of any device: its kernel and its label in the plan."""

    @property
    def kernel(self) -> str: ...

    @property
    def label(self) -> str: ...


Launched = TypeVar("Launched", bound=Labelled)


def kernel_times(
    plan: Plan,
    work: Work,
    launches: Sequence[Launched],
    seconds_of_one: Callable[[Sequence[Launched]], list[float]],
) -> list[KernelTime]:
    """Every kernel of a step's plan, in the order of first use.

    Args:
        launches: the plan's, bound.
        seconds_of_one: seconds of one launch of those given, on average, a sample a round.
    """
    values = {name: work.symbols[name] for name in ("n", "b", "r")} | {"kv": work.kv}
    costs = plan_cost(plan, values).steps
    found = []
    for name in dict.fromkeys(step.kernel for step in plan.steps):
        own = [launch for launch in launches if launch.kernel == name]
        seconds = [len(own) * one for one in seconds_of_one(own)]
        found.append(
            KernelTime(
                kernel=name,
                label=own[0].label.removeprefix("layers.0."),
                launches=len(own),
                bytes=sum(cost.bytes for cost in costs if cost.kernel == name),
                flops=sum(cost.flops for cost in costs if cost.kernel == name),
                seconds=median(seconds),
                low=min(seconds),
                high=max(seconds),
            )
        )
    return found


def plan_of(program: LoadedProgram, work: Work) -> Plan:
    """The plan that serves a step."""
    name = program.program.plan_for(work.operation, work.symbols)
    if name is None:
        raise ValueError(f"{program.program.id} has no plan for {work}")
    return program.plans[name]


def write_step(program: LoadedProgram, work: Work) -> None:
    """Fill the step buffers of a step."""
    page_tokens = paged_state(program.bundle.manifest).page_tokens
    columns = program.read("table", slice(0, 1)).shape[1]
    for name, array in step_arrays(work, columns, page_tokens).items():
        program.write(name, array)


class TimedDevice(WgpuDevice):
    """A GPU whose programs can be timed."""

    def __init__(self, gpu: TimedGpu) -> None:
        self.adapter = gpu.adapter
        self._gpu = gpu

    def features(self) -> frozenset[str]:
        return self._gpu.features

    def bind(self, checked: Checked) -> TimedProgram:
        return TimedProgram(self._gpu, checked)


class TimedProgram(WgpuProgram):
    """A program whose launches can be made in any order, and timed."""

    def __init__(self, gpu: TimedGpu, checked: Checked) -> None:
        super().__init__(gpu, checked)
        self.clock = Clock(gpu)

    @property
    def clock_source(self) -> str:
        """Whose clock times steps."""
        return self.clock.source

    def plan_of(self, work: Work) -> Plan:
        """The plan that serves a step."""
        return plan_of(self, work)

    def kernel_times(self, work: Work, rounds: int) -> list[KernelTime]:
        """Every kernel of a step's plan, in the order of first use."""
        plan = self.plan_of(work)
        bound = self._bound[plan.name]
        self.write_step(work)
        grids = bound.grids.at(tuple(self._step))

        def seconds_of_one(launches: Sequence[Launch]) -> list[float]:
            self.write_step(work)
            return self._seconds_of_one(launches, grids, rounds)

        return kernel_times(plan, work, bound.launches, seconds_of_one)

    def device_seconds(self, work: Work, rounds: int) -> list[float]:
        """Seconds of a whole step on the device, a sample a round."""
        bound = self._bound[self.plan_of(work).name]
        self.write_step(work)
        grids = bound.grids.at(tuple(self._step))

        def record(into: Any, times: int) -> None:
            for _ in range(times):
                _dispatch(into, bound.launches, grids, len(bound.launches))

        return self.clock.pass_seconds(record, rounds + 1)[1:]

    def encode_seconds(self, work: Work, k: int, rounds: int) -> list[float]:
        """CPU seconds of this thread to build the command buffer of a step, a sample a round.

        Args:
            k: how often the step is repeated in the command buffer; seconds are of one repetition.
        """
        bound, device = self._bound[self.plan_of(work).name], self._gpu.device
        self.write_step(work)
        found = []
        for _ in range(rounds + 1):
            start = time.thread_time()
            encoder = device.create_command_encoder()
            into = encoder.begin_compute_pass()
            bound.encode(into, tuple(self._step), k)
            into.end()
            encoder.finish()
            found.append((time.thread_time() - start) / k)
        return found[1:]

    def write_step(self, work: Work) -> None:
        """Fill the step buffers of a step."""
        write_step(self, work)

    def _seconds_of_one(
        self, launches: Sequence[Launch], grids: Sequence[tuple[int, int, int]], rounds: int
    ) -> list[float]:
        def samples(count: int, rounds: int) -> list[float]:
            def record(into: Any, times: int) -> None:
                _dispatch(into, launches, grids, count * times)

            return [seconds / count for seconds in self.clock.pass_seconds(record, rounds)]

        few = samples(len(launches), 2)[1]
        count = min(MOST_LAUNCHES, max(len(launches), int(LEAST_SECONDS / few)))
        return [few] if rounds == 1 else samples(count, rounds)


def step_arrays(work: Work, columns: int, page_tokens: int) -> Mapping[str, npt.NDArray[Any]]:
    """The contents of the step buffers: sampling by `DEFAULTS`, pages of its own for each sequence.

    Args:
        columns: of ``table``.
    """
    n, b, each = work.rows, work.sequences, work.rows // work.sequences
    pages = pages_for(work.kv + each, page_tokens)
    lines = [
        Line(work.kv, each, range(row * pages, (row + 1) * pages), NEVER, row) for row in range(b)
    ]
    return {
        "step": step_array(n, b, b, work.kv + each),
        **row_arrays(lines, range(n)),
        "logit_rows": np.arange(b, dtype=np.int32) * each + each - 1,
        "table": table_array(lines, columns),
        "eos": eos_array([]),
        **sampling_arrays([(DEFAULTS, 1, row) for row in range(b)]),
    }


def _dispatch(
    into: Any, launches: Sequence[Launch], grids: Sequence[tuple[int, int, int]], count: int
) -> None:
    """``count`` launches, beginning again from the first when they run out."""
    pipeline = None
    for i in range(count):
        launch = launches[i % len(launches)]
        if launch.pipeline is not pipeline:
            pipeline = launch.pipeline
            into.set_pipeline(pipeline)
        into.set_bind_group(0, launch.group)
        into.dispatch_workgroups(*grids[launch.grid])
