"""What every device with memory of its own does alike: `GpuProgramTests`, for each one's tests.

A folder's conftest has two fixtures: ``tiny``, and ``program``, loaded with 4 pages.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import Array, Device, LoadedProgram
from edgewise_runtime.devices.mail import mail
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.errors import BundleError, DeviceError
from tests.runtime import sample
from tests.runtime.devices.programs import PAGES, ProgramTests, Tiny, refused
from tests.runtime.sample import Json


@dataclass(frozen=True)
class GpuTiny(Tiny):
    """The same of a GPU.

    Attributes:
        open: makes the device once more.
        looks: how often the host has waited for a loaded program's buffers so far.
    """

    open: Callable[[], Device]
    looks: Callable[[Any], int]


def write_step(program: LoadedProgram, n: int = 4, b: int = 2, r: int = 2, t: int = 64) -> None:
    program.write("step", step_array(n, b, r, t))


def write_table(program: LoadedProgram, limit: int = 1000) -> None:
    """Two sequences with pages 3 and 1 and a limit of tokens."""
    table = np.zeros((2, 12), np.int32)
    table[:, 8] = [3, 1]
    table[:, 4] = limit
    program.write("table", table)


def begin(program: LoadedProgram) -> None:
    """Two sequences that never end."""
    write_table(program, limit=1 << 30)
    write_step(program)


def filled(program: LoadedProgram, name: str, shape: tuple[int, ...]) -> Array:
    """Values that differ, written to a buffer of a shape."""
    values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    program.write(name, values)
    return values


class GpuProgramTests(ProgramTests):
    """Subclassed in the tests of each device with memory of its own."""

    def test_it_is_a_device_as_the_protocol_says(
        self, tiny: GpuTiny, program: LoadedProgram
    ) -> None:
        assert tiny.device.target == tiny.program.partition("-")[0]
        assert tiny.device.name
        assert tiny.device.identity
        assert program.program.id == tiny.program
        assert sorted(program.plans) == ["decode", "prefill", "visit"]

    def test_kernels_read_parameters_and_write_state(self, program: LoadedProgram) -> None:
        x = filled(program, "x", (4, 8))
        write_table(program)
        write_step(program)
        program.run("prefill")
        assert np.array_equal(program.read("w"), sample.WEIGHT)
        assert np.array_equal(program.read("x"), x * sample.WEIGHT)
        kv = program.read("kv.0")
        assert kv.shape == (4, 2, 1, 32)
        for page in (1, 3):
            assert kv[page, 0, 0, :5].tolist() == [1, 2, 3, 4, 0]
        assert not kv[[0, 2]].any()
        assert not kv[:, 1].any()

    def test_buffers_begin_zeroed(self, program: LoadedProgram) -> None:
        for name in ("x", "kv.0", "table", "step", "seen", "logits"):
            assert not program.read(name).any()

    @pytest.mark.parametrize("k", [1, 3, 8])
    def test_a_burst_is_that_many_single_steps(self, tiny: GpuTiny, k: int) -> None:
        states = []
        for bursts in ([k], [1] * k):
            with tiny.load() as program:
                write_table(program)
                write_step(program)
                for count in bursts:
                    program.run("decode", count)
                states.append((program.read("x"), program.read("table")))
        assert np.array_equal(states[0][0], states[1][0])
        assert np.array_equal(states[0][1], states[1][1])
        assert states[0][0][0, 0] == k

    def test_a_burst_ends_when_the_kernels_say_stop(self, program: LoadedProgram) -> None:
        write_table(program, limit=3)
        write_step(program)
        program.run("decode", 8)
        assert program.read("table")[:, [0, 3]].tolist() == [[3, 2], [3, 0]]
        assert program.read("step")[1] == 0
        # The grid still follows what the host wrote last; the kernels see what they left there.
        program.run("decode", 8)
        assert program.read("x")[0, 0] == 3

    @pytest.mark.parametrize(
        ("step", "columns", "rows"),
        [
            ((1, 1, 1, 1), 1, 1),
            ((4, 2, 2, 64), 8, 4),
            ((3, 1, 2, 33), 6, 3),
            ((0, 1, 0, 0), 1, 1),
            ((9, 1, 9, 999), 8, 4),
        ],
    )
    def test_grids_follow_the_symbols_in_step(
        self, program: LoadedProgram, step: tuple[int, ...], columns: int, rows: int
    ) -> None:
        write_step(program, *step)
        program.run("visit")
        expected = np.zeros((8, 4), np.float32)
        expected[:columns, :rows] = 1
        assert np.array_equal(program.read("seen"), expected)

    def test_a_symbol_can_be_written_by_itself(self, program: LoadedProgram) -> None:
        write_step(program, n=1, b=1, r=1, t=1)
        program.write("step", np.array([2, 33], np.int32), 2)
        program.run("visit")
        assert program.read("seen").sum() == 2 * 3

    def test_what_the_host_writes_after_a_run_is_what_it_reads(
        self, program: LoadedProgram
    ) -> None:
        write_table(program)
        write_step(program)
        program.run("decode", 2)
        program.write("table", np.array([77], np.int32), 12)
        table = program.read("table")
        assert table[:, 0].tolist() == [2, 77]
        program.run("decode")
        assert program.read("table")[:, 0].tolist() == [3, 78]

    def test_what_is_written_may_change_before_the_gpu_comes_to_it(
        self, program: LoadedProgram
    ) -> None:
        values = np.ones((4, 8), np.float32)
        program.write("x", values)
        values[:] = 2
        assert (program.read("x") == 1).all()

    def test_buffers_of_earlier_runs_stay_readable(
        self, tiny: GpuTiny, program: LoadedProgram
    ) -> None:
        write_table(program)
        write_step(program)
        program.run("decode")
        program.run("visit")
        program.run("visit")
        looks = tiny.looks(program)
        assert program.read("seen")[0, 0] == 2
        assert program.read("table")[0, 0] == 1
        # One look brings home all that is under way.
        assert tiny.looks(program) == looks + 1

    @pytest.mark.parametrize(
        "rows", [slice(1, 3), slice(None, 2), slice(2, None), slice(0, 0), slice(None, None, 2)]
    )
    def test_rows_are_read_by_themselves(self, program: LoadedProgram, rows: slice) -> None:
        for name, shape in (("x", (4, 8)), ("logits", (2, 1 << 18))):
            values = filled(program, name, shape)
            assert np.array_equal(program.read(name, rows), values[rows])

    @pytest.mark.parametrize("columns", [slice(0, 2), slice(7, 13), slice(None), slice(3, 3)])
    @pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 1), slice(None), slice(None, None, 2)])
    def test_columns_are_read_by_themselves(
        self, program: LoadedProgram, rows: slice, columns: slice
    ) -> None:
        for name, shape in (("x", (4, 8)), ("logits", (2, 1 << 18))):
            values = filled(program, name, shape)
            assert np.array_equal(program.read(name, rows, columns), values[rows, columns])

    @pytest.mark.parametrize(("bytes_of_table", "sent"), [(1 << 20, ["table"]), (1 << 21, [])])
    def test_a_table_of_megabytes_is_not_sent_along_with_every_run(
        self, program: LoadedProgram, bytes_of_table: int, sent: list[str]
    ) -> None:
        sizes = {buffer.name: 64 for buffer in program.plans["decode"].buffers}
        names = mail(program.plans["decode"], {**sizes, "table": bytes_of_table})
        assert [name for name in names if name == "table"] == sent

    @pytest.mark.parametrize("name", ["y", "scratch.0", ""])
    def test_only_named_buffers_can_be_read_and_none_viewed(
        self, program: LoadedProgram, name: str
    ) -> None:
        assert refused(lambda: program.read(name)) == "device.buffer"
        assert refused(lambda: program.view("x")) == "device.buffer"

    def test_a_plan_can_be_traced_launch_by_launch(self, program: LoadedProgram) -> None:
        program.write("x", np.ones((4, 8), np.float32))
        write_table(program)
        write_step(program)
        steps = list(program.trace("prefill"))
        assert [(step.label, step.kernel) for step in steps] == [
            ("layers.0.scale", "scale"),
            ("layers.0.stamp", "stamp"),
        ]
        x, marks = steps[0].outputs
        assert np.array_equal(x, np.ones((4, 1), np.float32) * sample.WEIGHT)
        assert marks.tolist() == [1, 2, 3, 4]
        # State is not copied, it may be large; it was written all the same.
        assert steps[1].outputs == ()
        assert program.read("kv.0")[[1, 3], 0, 0, 3].tolist() == [4, 4]
        assert np.array_equal(program.read("x"), x)
        assert refused(lambda: next(program.trace("sing"))) == "device.plan"

    def test_memory_is_counted_by_role(self, program: LoadedProgram) -> None:
        assert program.memory() == {
            "param": 32,
            "state": 4 * 256,
            "input": 96 + 32,
            "output": 128 + 128 + (1 << 21),
            "scratch": 256,
        }

    def test_what_a_listener_raises_is_not_taken_for_a_failure_of_the_gpu(
        self, tiny: GpuTiny
    ) -> None:
        def listener(what: str, done: int, total: int) -> None:
            raise ValueError("I stopped listening")

        with pytest.raises(ValueError, match="I stopped listening"):
            tiny.load(progress=listener)

    def test_the_bundle_has_to_have_a_program(self, tiny: GpuTiny) -> None:
        def only_cpu(manifest: Json) -> None:
            manifest["programs"] = manifest["programs"][:1]

        target = tiny.device.target
        with pytest.raises(DeviceError, match=f"no {target} program; it has cpu-f32-port") as error:
            tiny.load(only_cpu)
        assert f"--target {target} -o " in error.value.remedy
        assert refused(lambda: tiny.load(program="webgpu-f64"), BundleError)

    def test_a_program_for_a_better_gpu_is_refused_by_name(self, tiny: GpuTiny) -> None:
        def demand(manifest: Json) -> None:
            manifest["programs"][1]["needs"] = {"arch": None, "features": ["warp-drive"]}

        for chosen in (None, tiny.program):
            with pytest.raises(DeviceError, match="warp-drive") as error:
                tiny.load(demand, chosen)
            assert error.value.code == "device.no_program"
        assert refused(lambda: tiny.load(program="cpu-f32-portable")) == "device.no_program"

    def test_ctrl_c_waits_for_the_burst_and_breaks_nothing(self, program: LoadedProgram) -> None:
        begin(program)
        tokens = 0

        def bursts(delay: float) -> None:
            nonlocal tokens
            # Armed in here: a slow machine must not be interrupted before it expects it.
            signal.setitimer(signal.ITIMER_REAL, delay)
            while True:
                program.run("decode", 8)
                tokens += 8
                program.read("table")

        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            for delay in np.linspace(0.0001, 0.004, 30):
                with pytest.raises(KeyboardInterrupt):
                    bursts(delay)
                found = int(program.read("table")[0, 0])
                # The burst whose caller was interrupted is done, or was never begun.
                assert found in (tokens, tokens + 8)
                tokens = found
        finally:
            signal.signal(signal.SIGALRM, previous)

    def test_a_forked_process_is_told_to_load_its_own(
        self, tiny: GpuTiny, program: LoadedProgram
    ) -> None:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                codes = {refused(use) for use in (lambda: program.run("decode"), program.memory)}
                codes |= {refused(lambda: tiny.open().load(tiny.make(), load_symbols=PAGES))}
                program.close()
                status = 0 if codes == {"device.fork"} else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        begin(program)
        program.run("decode")
        assert program.read("table")[0, 0] == 1
