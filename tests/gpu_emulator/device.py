"""A device whose GPU is the emulator: the programs of a bundle, run launch by launch.

Every launch is checked as `execute` says, in an order of threads and workgroups of its own. What a
kernel is comes from the texts that ``debug_dump`` wrote when the bundle was compiled, so that it
does not matter whether the bundle has texts or binaries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np

from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_runtime.devices import common, loading
from edgewise_runtime.devices.base import Array, TracedStep
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import STEP_SYMBOLS
from edgewise_runtime.format.plan import Plan, Step
from tests.gpu_emulator.build import Dialect, shader_of
from tests.gpu_emulator.execute import launch_in_place


class EmulatedDevice:
    """Runs the programs of one target.

    Args:
        dump: the folder that ``debug_dump`` named, with a folder for each program.
        features: what the GPU has, by names in bundles.
    """

    host_memory = False
    identity = "emulator"
    load = loading.load

    def __init__(
        self,
        target: str,
        dialect: Dialect,
        dump: Path,
        suffix: str,
        features: frozenset[str] = frozenset(),
    ) -> None:
        self.target = target
        self.name = f"{target} on the emulator"
        self._dialect = dialect
        self._dump = dump
        self._suffix = suffix
        self._features = features

    def features(self) -> frozenset[str]:
        return self._features

    def available_memory(self) -> int | None:
        return None

    def largest_buffer(self) -> int | None:
        return None

    def bind(self, checked: loading.Checked) -> EmulatedProgram:
        """See `loading.Binds.bind`."""
        folder = self._dump / checked.program.id
        shaders = {
            name: shader_of((folder / f"kernel.{name}.{self._suffix}").read_text(), self._dialect)
            for plan in checked.plans.values()
            for name in plan.kernels
        }
        return EmulatedProgram(checked, shaders, self._dialect)


class EmulatedProgram:
    """A program in this process's memory; see `base.LoadedProgram`.

    Attributes:
        launches: that were made so far.
    """

    def __init__(
        self, checked: loading.Checked, shaders: Mapping[str, Shader], dialect: Dialect
    ) -> None:
        self.bundle = checked.bundle
        self.program = checked.program
        self.plans = checked.plans
        self.launches = 0
        self._shaders = shaders
        self._dialect = dialect
        self._paging = checked.pages
        self._load = dict(checked.load_symbols)
        self._buffers = checked.buffers
        self._sizes = checked.sizes
        self._memory = {name: np.zeros(size, np.uint8) for name, size in checked.sizes.items()}
        for tensors, files in checked.params():
            for name, entry in tensors.items():
                files[entry.file].seek(entry.offset)
                data = files[entry.file].read(entry.bytes)
                self._memory[name][: entry.bytes] = np.frombuffer(data, np.uint8)

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        found, values = common.find_buffer(self._buffers, buffer), np.asarray(array)
        whole = self._array(buffer)
        common.check_write(found, whole.size, values, offset_elems)
        whole.reshape(-1)[offset_elems : offset_elems + values.size] = values.reshape(-1)

    def read(self, buffer: str, rows: slice | None = None, columns: slice | None = None) -> Array:
        common.find_buffer(self._buffers, buffer)
        return common.piece_of(self._array(buffer), rows, columns)

    def view(self, buffer: str) -> Array:
        raise common.buffer_error(f"{buffer!r} cannot be viewed.")

    def run(self, plan: str, k: int = 1) -> None:
        found = common.find_plan(self.program, self.plans, plan, k)
        symbols = self._symbols(found)
        for _ in range(k):
            for step in found.steps:
                self._launch(found, step, symbols)

    def trace(self, plan: str) -> Iterator[TracedStep]:
        found = common.find_plan(self.program, self.plans, plan)
        symbols = self._symbols(found)
        states = {buffer.name for buffer in found.buffers if buffer.role == "state"}
        for step in found.steps:
            arrays = self._launch(found, step, symbols)
            outputs = []
            pairs = zip(found.kernels[step.kernel].args, step.bindings, arrays, strict=True)
            for arg, binding, array in pairs:
                if arg.writes and binding.buffer not in states:
                    shape = tuple(self._most(found, dim) for dim in arg.shape)
                    outputs.append(array.view(arg.dtype).reshape(shape).copy())
            yield TracedStep(step.label, step.kernel, tuple(outputs))

    @property
    def page_bytes(self) -> int:
        return self._paging.page_bytes

    def copy_page(self, source: int, target: int) -> None:
        self.write_page(target, self.read_page(source))

    def read_page(self, page: int) -> bytes:
        self._paging.check(page)
        return b"".join(part.tobytes() for part in self._rows(page))

    def write_page(self, page: int, data: bytes) -> None:
        self._paging.check_data(page, len(data))
        for row, part in zip(self._paging.rows, self._rows(page), strict=True):
            part[:] = np.frombuffer(data, np.uint8)[row.offset : row.offset + row.bytes]

    def memory(self) -> dict[str, int]:
        return common.count_bytes(self.plans, self._sizes)

    def close(self) -> None:
        self._memory = {}

    def __enter__(self) -> EmulatedProgram:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _rows(self, page: int) -> Iterator[Array]:
        for row in self._paging.rows:
            yield self._memory[row.buffer][page * row.bytes : (page + 1) * row.bytes]

    def _array(self, buffer: str) -> Array:
        found = self._buffers[buffer]
        shape = tuple(ex.evaluate(dim, self._load) for dim in found.shape)
        count = math.prod(shape) * np.dtype(found.dtype).itemsize
        return self._memory[buffer][:count].view(found.dtype).reshape(shape)

    def _symbols(self, plan: Plan) -> dict[str, int]:
        """Load symbols, and step symbols as ``step`` has them."""
        step = self._array("step").reshape(-1)
        values = dict(zip(STEP_SYMBOLS, step.tolist(), strict=False))
        return self._load | {
            symbol.name: min(max(values[symbol.name], symbol.min), symbol.max)
            for symbol in plan.symbols
            if symbol.kind == "step" and symbol.name in STEP_SYMBOLS
        }

    def _most(self, plan: Plan, value: ex.Expr) -> int:
        ranges = plan.ranges | {name: (one, one) for name, one in self._load.items()}
        return ex.bounds(value, ranges)[1]

    def _launch(self, plan: Plan, step: Step, symbols: Mapping[str, int]) -> list[Array]:
        """One launch. Arguments are as long as their kernel says: beyond is out of bounds."""
        arrays = []
        for arg, binding in zip(plan.kernels[step.kernel].args, step.bindings, strict=True):
            end = binding.offset + self._most(plan, arg.bytes)
            arrays.append(self._memory[binding.buffer][binding.offset : end])
        x, y, _ = (ex.evaluate(extent, symbols) for extent in step.grid)
        self.launches += 1
        made = self._shaders[step.kernel]
        launch_in_place(made, arrays, (x, y), self.launches, self._dialect)
        return arrays
