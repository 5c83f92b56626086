"""Each kernel of a plan by itself: its launches repeated in one pass, and the bytes they move.

A program is bound here a second time, outside of the runtime, so that its launches can be put in
any order. What the buffers hold is plausible rather than right: weights are the bundle's, tables
name real pages, everything else is zero. Launches of one kernel go through the weights of all
layers in turn, so that what is larger than a cache is read from memory, as in a real step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import wgpu

from edgewise_runtime import expr
from edgewise_runtime.bundle import Bundle
from edgewise_runtime.cost import plan_cost
from edgewise_runtime.kv.pages import TABLE_HEADER, pages_for
from edgewise_runtime.plan import Plan, Step
from gpu.adapters import bind, wall_seconds

LEAST_SECONDS, MOST_LAUNCHES = 0.05, 512
"""A sample repeats a kernel until it takes so long, within reason."""

UPLOAD_BYTES = 64 << 20
NEVER = 1 << 20


@dataclass(frozen=True)
class Work:
    """One step to measure: ``operation`` with so many rows and sequences of ``kv`` tokens each."""

    operation: str
    rows: int
    sequences: int
    kv: int

    @property
    def symbols(self) -> dict[str, int]:
        """The step symbols; ``t`` counts what this step appends."""
        each = self.rows // self.sequences
        return {
            "n": self.rows,
            "b": self.sequences,
            "r": self.sequences,
            "t": self.kv + each,
        }


@dataclass(frozen=True)
class KernelTime:
    """A kernel in one step: launches, bytes by the cost model, seconds, medians over rounds.

    ``low`` and ``high`` are the fastest and slowest rounds.
    """

    kernel: str
    label: str
    launches: int
    bytes: int
    seconds: float
    low: float
    high: float

    @property
    def gigabytes(self) -> float:
        """GB/s (1e9 bytes)."""
        return self.bytes / self.seconds / 1e9


class Launches:
    """One program's plans, bound to buffers of a device and ready to be encoded."""

    def __init__(self, device: Any, bundle: Bundle, program_id: str, pages: int) -> None:
        self._device = device
        self._bundle = bundle
        self._program = bundle.manifest.program(program_id)
        self._plans = bundle.plans(program_id)
        self._pages = pages
        self._buffers = self._allocate()
        self._last = device.create_buffer_with_data(
            data=b"\xff" * 16, usage=wgpu.BufferUsage.UNIFORM
        )
        self._pipelines: dict[str, Any] = {}
        self._groups: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._timer = _Timer(device) if "timestamp-query" in device.features else None

    @property
    def timestamps(self) -> bool:
        """Whether times are the device's own rather than the host's."""
        return self._timer is not None

    def plan(self, work: Work) -> Plan:
        """The plan that serves a step."""
        name = self._program.plan_for(work.operation, work.symbols)
        if name is None:
            raise ValueError(f"{self._program.id} has no plan for {work}")
        return self._plans[name]

    def kernels(self, work: Work, rounds: int) -> list[KernelTime]:
        """Every kernel of the step's plan, in the order of first use."""
        plan = self.plan(work)
        values = {name: work.symbols[name] for name in ("n", "b", "r")} | {"kv": work.kv}
        costs = plan_cost(plan, values).steps
        self.prepare(work)
        times = []
        for name in dict.fromkeys(step.kernel for step in plan.steps):
            steps = [step for step in plan.steps if step.kernel == name]
            launches = [self._launch(plan, step, work) for step in steps]
            moved = sum(c.bytes for c in costs if c.kernel == name)
            self._write_steps(work)
            seconds = [len(steps) * s for s in self._seconds_of_one(launches, rounds)]
            label = steps[0].label.removeprefix("layers.0.")
            times.append(
                KernelTime(
                    *(name, label, len(steps), moved),
                    *(median(seconds), min(seconds), max(seconds)),
                )
            )
        return times

    def step_seconds(self, work: Work, rounds: int) -> list[float]:
        """Seconds of the whole plan on the device, a sample a round."""
        plan = self.plan(work)
        launches = [self._launch(plan, step, work) for step in plan.steps]
        self._write_steps(work)
        return self._samples(launches, len(launches), rounds)

    def prepare(self, work: Work) -> None:
        """Make every pipeline and bind group of the step's plan."""
        plan = self.plan(work)
        for step in plan.steps:
            self._launch(plan, step, work)

    def _seconds_of_one(self, launches: Sequence[_Launch], rounds: int) -> list[float]:
        few = min(self._samples(launches, len(launches), 2)) / len(launches)
        count = min(MOST_LAUNCHES, max(len(launches), int(LEAST_SECONDS / max(few, 1e-7))))
        return [seconds / count for seconds in self._samples(launches, count, rounds)]

    def _samples(self, launches: Sequence[_Launch], count: int, rounds: int) -> list[float]:
        """Seconds of ``count`` launches, beginning again from the first when they run out."""
        if self._timer is None:

            def encode(encoder: Any, times: int) -> None:
                work = encoder.begin_compute_pass()
                for _ in range(times):
                    _dispatch(work, launches, count)
                work.end()

            return wall_seconds(self._device, encode, rounds)
        return [
            self._timer.seconds(lambda work: _dispatch(work, launches, count))
            for _ in range(rounds)
        ]

    def _launch(self, plan: Plan, step: Step, work: Work) -> _Launch:
        pipeline = self._pipeline(plan, step.kernel)
        names = tuple(binding.buffer for binding in step.bindings)
        group = self._groups.get((step.kernel, names))
        if group is None:
            buffers = [*(self._buffers[name] for name in names), self._last]
            group = bind(self._device, pipeline, buffers)
            self._groups[step.kernel, names] = group
        x, y, _ = (expr.evaluate(extent, work.symbols) for extent in step.grid)
        return _Launch(pipeline, group, (x, y))

    def _pipeline(self, plan: Plan, kernel: str) -> Any:
        if kernel not in self._pipelines:
            source = self._bundle.read(self._program.shaders[kernel]).decode()
            self._pipelines[kernel] = compute_pipeline(
                self._device, source, plan.kernels[kernel].symbol
            )
        return self._pipelines[kernel]

    def _allocate(self) -> dict[str, Any]:
        sizes: dict[str, int] = {}
        roles: dict[str, str] = {}
        for plan in self._plans.values():
            load = plan.resolve({"pages": self._pages})
            for buffer in plan.buffers:
                size = expr.evaluate(buffer.bytes, load)
                sizes[buffer.name] = max(size, sizes.get(buffer.name, 0))
                roles[buffer.name] = buffer.role
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        made = {
            name: self._device.create_buffer(size=-(-size // 4) * 4, usage=usage)
            for name, size in sizes.items()
        }
        for name, role in roles.items():
            if role == "param":
                for start, piece in _pieces(self._bundle, self._program.layout, name):
                    self._device.queue.write_buffer(made[name], start, piece)
        return made

    def _write_steps(self, work: Work) -> None:
        """Fill the step buffers of a step, as far as the program has them."""
        width = self._buffers["table"].size // 4 // self._bundle.model.max_batch
        for name, array in step_arrays(work, width).items():
            if name in self._buffers:
                self._device.queue.write_buffer(self._buffers[name], 0, array)


@dataclass(frozen=True)
class _Launch:
    pipeline: Any
    group: Any
    grid: tuple[int, int]


class _Timer:
    """The device's clock at the beginning and the end of a pass."""

    def __init__(self, device: Any) -> None:
        usage = wgpu.BufferUsage
        self._device = device
        self._queries = device.create_query_set(type="timestamp", count=2)
        self._result = device.create_buffer(size=16, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)

    def seconds(self, record: Any) -> float:
        """Run one compute pass that ``record`` fills; how long the device took over it."""
        encoder = self._device.create_command_encoder()
        work = encoder.begin_compute_pass(
            timestamp_writes={
                "query_set": self._queries,
                "beginning_of_pass_write_index": 0,
                "end_of_pass_write_index": 1,
            }
        )
        record(work)
        work.end()
        encoder.resolve_query_set(self._queries, 0, 2, self._result, 0)
        self._device.queue.submit([encoder.finish()])
        begin, end = np.frombuffer(self._device.queue.read_buffer(self._result), np.uint64)
        return int(end - begin) / 1e9


def compute_pipeline(device: Any, source: str, entry: str) -> Any:
    """A pipeline of one shader; wgpu knows no ``enable subgroups`` and needs none."""
    module = device.create_shader_module(code=source.replace("enable subgroups;", ""))
    return device.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": entry}
    )


def step_arrays(work: Work, table_width: int) -> Mapping[str, npt.NDArray[Any]]:
    """The contents of the step buffers: greedy sampling, and pages of its own for each sequence."""
    n, b, each = work.rows, work.sequences, work.rows // work.sequences
    table = np.zeros((b, table_width), np.int32)
    pages = pages_for(work.kv + each)
    for row in range(b):
        table[row, :5] = work.kv, row * each, each, 0, NEVER
        table[row, 6] = row
        table[row, TABLE_HEADER : TABLE_HEADER + pages] = np.arange(pages) + row * pages
    floats = np.zeros((b, 8), np.float32)
    floats[:, [1, 3]] = 1.0
    step = [n, b, b, work.kv + each, 0, 0, 0, 0]
    return {
        "step": np.array(step, np.int32),
        "tokens": np.arange(n, dtype=np.int32),
        "positions": work.kv + np.arange(n, dtype=np.int32) % each,
        "row_seq": np.arange(n, dtype=np.int32) // each,
        "logit_rows": np.arange(b, dtype=np.int32) * each + each - 1,
        "table": table,
        "eos": np.full(16, -1, np.int32),
        "sampling_f": floats,
    }


def _dispatch(work: Any, launches: Sequence[_Launch], count: int) -> None:
    pipeline = None
    for i in range(count):
        launch = launches[i % len(launches)]
        if launch.pipeline is not pipeline:
            pipeline = launch.pipeline
            work.set_pipeline(pipeline)
        work.set_bind_group(0, launch.group)
        work.dispatch_workgroups(*launch.grid)


def _pieces(bundle: Bundle, layout: str, name: str) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
    """The bytes of a parameter in pieces, each with the place where it begins."""
    entry = bundle.manifest.layouts[layout][name]
    mapped = np.memmap(bundle.file(entry.file), np.uint8, "r", entry.offset, (entry.bytes,))
    for start in range(0, entry.bytes, UPLOAD_BYTES):
        yield start, np.asarray(mapped[start : start + UPLOAD_BYTES])
