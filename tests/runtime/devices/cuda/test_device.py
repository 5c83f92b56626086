"""The CUDA device on the emulated driver: what it launches, moves, counts and gives back.

Everything of ours runs as on a GPU; the driver and its GPU are those of tests/gpu_emulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.devices.cuda.device import CudaDevice, CudaProgram
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.errors import BundleError, DeviceError, EdgewiseError, PlanError, TrustError
from tests.gpu_emulator.driver import emulated
from tests.gpu_emulator.driver.emulated import Left
from tests.runtime import sample
from tests.runtime.devices import tiny_cuda
from tests.runtime.devices.cuda.conftest import PAGES, Make
from tests.runtime.sample import Json

OPEN = Left(contexts=1, memory=0, pinned=0, made=1)
"""What stays of a GPU that was used: its context and the stream in it."""


def refused(action: Callable[[], object], kind: type[EdgewiseError] = DeviceError) -> str:
    """The code of the error an action raises."""
    with pytest.raises(kind) as error:
        action()
    return error.value.code


def write_step(program: LoadedProgram, n: int = 4, b: int = 2, r: int = 2, t: int = 64) -> None:
    program.write("step", step_array(n, b, r, t))


def write_table(program: LoadedProgram, limit: int = 1000) -> None:
    """Two sequences with pages 3 and 1 and a limit of tokens."""
    table = np.zeros((2, 12), np.int32)
    table[:, 8] = [3, 1]
    table[:, 4] = limit
    program.write("table", table)


def test_it_is_a_device_as_the_protocol_says(program: CudaProgram, device: CudaDevice) -> None:
    as_device: Device = device
    loaded: LoadedProgram = program
    assert as_device.target == "cuda"
    assert as_device.name == "Emulated GPU 0 (compute capability 9.0)"
    assert as_device.identity == f"{as_device.name}, driver for CUDA 12.9"
    assert {"sm_80", "sm_90"} < as_device.features()
    assert "sm_100" not in as_device.features()
    assert loaded.program.id == tiny_cuda.ID
    assert sorted(loaded.plans) == ["decode", "prefill", "visit"]


def test_kernels_read_parameters_and_write_state(program: CudaProgram) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    program.write("x", x)
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


def test_buffers_begin_zeroed(program: CudaProgram) -> None:
    for name in ("x", "kv.0", "table", "step", "seen", "logits"):
        assert not program.read(name).any()


@pytest.mark.parametrize("k", [1, 3, 8])
def test_a_burst_is_that_many_single_steps(device: CudaDevice, make_cuda: Make, k: int) -> None:
    states = []
    for bursts in ([k], [1] * k):
        with device.load(make_cuda(), load_symbols=PAGES, trust=True) as program:
            write_table(program)
            write_step(program)
            for count in bursts:
                program.run("decode", count)
            states.append((program.read("x"), program.read("table")))
    assert np.array_equal(states[0][0], states[1][0])
    assert np.array_equal(states[0][1], states[1][1])
    assert states[0][0][0, 0] == k


def test_a_burst_ends_when_the_kernels_say_stop(program: CudaProgram) -> None:
    write_table(program, limit=3)
    write_step(program)
    program.run("decode", 8)
    assert program.read("table")[:, [0, 3]].tolist() == [[3, 2], [3, 0]]
    assert program.read("step")[1] == 0
    program.run("decode", 8)
    assert program.read("x")[0, 0] == 3


def test_a_burst_is_one_launch_of_a_graph_that_is_captured_once(program: CudaProgram) -> None:
    write_table(program)
    write_step(program)
    for turn in range(1, 4):
        before = emulated.done()
        waits = program.counters.waits
        program.run("decode", 8)
        table, step = program.read("table"), program.read("step", slice(0, 2))
        after = emulated.done()
        assert (table[0, 0], step.tolist()) == (8 * turn, [4, 2])
        assert after.graphs == before.graphs + 1
        assert after.kernels == before.kernels + 8
        # One wait brings home all that the plan wrote.
        assert after.waits == before.waits + 1
        assert program.counters.waits == waits + 1
        assert program.counters.graphs == 1
    program.run("decode", 2)
    assert program.counters.graphs == 2


def test_graphs_that_are_too_many_make_room(
    program: CudaProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.cuda.binding.MAX_GRAPHS", 2)
    write_table(program)
    write_step(program)
    made = emulated.left().made
    for k in (1, 2, 3, 4, 1):
        program.run("decode", k)
    assert program.read("table")[0, 0] == 11
    assert emulated.left().made <= made + 2


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
    program: CudaProgram, step: tuple[int, ...], columns: int, rows: int
) -> None:
    write_step(program, *step)
    program.run("visit")
    expected = np.zeros((8, 4), np.float32)
    expected[:columns, :rows] = 1
    assert np.array_equal(program.read("seen"), expected)


def test_a_symbol_can_be_written_by_itself(program: CudaProgram) -> None:
    write_step(program, n=1, b=1, r=1, t=1)
    program.write("step", np.array([2, 33], np.int32), 2)
    program.run("visit")
    assert program.read("seen").sum() == 2 * 3


def test_what_the_host_writes_after_a_run_is_what_it_reads(program: CudaProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode", 2)
    program.write("table", np.array([77], np.int32), 12)
    table = program.read("table")
    assert table[:, 0].tolist() == [2, 77]
    program.run("decode")
    assert program.read("table")[:, 0].tolist() == [3, 78]


def test_what_is_written_may_change_before_the_gpu_comes_to_it(program: CudaProgram) -> None:
    values = np.ones((4, 8), np.float32)
    program.write("x", values)
    values[:] = 2
    assert (program.read("x") == 1).all()


def test_buffers_of_earlier_runs_stay_readable(program: CudaProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode")
    program.run("visit")
    program.run("visit")
    waits = program.counters.waits
    assert program.read("seen")[0, 0] == 2
    assert program.read("table")[0, 0] == 1
    assert program.counters.waits == waits + 1


def test_writing_goes_to_an_offset_in_elements(program: CudaProgram) -> None:
    program.write("x", np.array([[1, 2], [3, 4]], np.float32), 7)
    assert program.read("x").reshape(-1)[6:12].tolist() == [0, 1, 2, 3, 4, 0]
    program.write("x", np.zeros(0, np.float32), 32)
    program.write("x", np.arange(64, dtype=np.float32).reshape(8, 8)[::2])
    assert program.read("x")[3].tolist() == list(range(48, 56))


@pytest.mark.parametrize("columns", [None, slice(0, 2), slice(7, 13), slice(None), slice(3, 3)])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 1), slice(None), slice(None, None, 2)])
def test_rows_and_columns_are_read_by_themselves(
    program: CudaProgram, rows: slice, columns: slice | None
) -> None:
    for name, shape in (("x", (4, 8)), ("logits", (2, 1 << 18))):
        values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        program.write(name, values)
        expected = values[rows] if columns is None else values[rows, columns]
        assert np.array_equal(program.read(name, rows, columns), expected)


@pytest.mark.parametrize(
    ("name", "values", "offset"),
    [
        ("x", np.zeros(8, np.float64), 0),
        ("x", np.zeros(33, np.float32), 0),
        ("x", np.zeros(8, np.float32), 25),
        ("x", np.zeros(8, np.float32), -1),
        ("w", np.zeros(8, np.float32), 0),
        ("y", np.zeros(8, np.float32), 0),
        ("scratch.0", np.zeros(8, np.uint8), 0),
    ],
)
def test_a_write_that_does_not_fit_is_refused(
    program: CudaProgram, name: str, values: Any, offset: int
) -> None:
    assert refused(lambda: program.write(name, values, offset)) == "device.buffer"
    assert not program.read("x").any()


@pytest.mark.parametrize("name", ["y", "scratch.0", ""])
def test_only_named_buffers_can_be_read_and_none_viewed(program: CudaProgram, name: str) -> None:
    assert refused(lambda: program.read(name)) == "device.buffer"
    assert refused(lambda: program.view("x")) == "device.buffer"


@pytest.mark.parametrize(
    ("plan", "k"), [("decode", 0), ("decode", 9), ("decode", -1), ("prefill", 2), ("sing", 1)]
)
def test_only_what_the_plans_allow_is_run(program: CudaProgram, plan: str, k: int) -> None:
    assert refused(lambda: program.run(plan, k)) == "device.plan"


def test_a_plan_can_be_traced_launch_by_launch(program: CudaProgram) -> None:
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
    assert steps[1].outputs == ()
    assert np.array_equal(program.read("x"), x)


def test_pages_are_copied_read_and_written_in_order_with_runs(program: CudaProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("prefill")
    program.copy_page(3, 0)
    program.copy_page(0, 0)
    state = program.read("kv.0")
    assert np.array_equal(state[0], state[3])
    assert state[0].any()
    data = program.read_page(3)
    assert data == state[3].tobytes()
    assert len(data) == program.page_bytes == 256
    first = bytes(range(256))
    program.write_page(2, first)
    program.write_page(1, first[::-1])
    assert (program.read_page(2), program.read_page(1)) == (first, first[::-1])
    for use in (
        lambda: program.copy_page(0, 4),
        lambda: program.read_page(-1),
        lambda: program.write_page(0, b"short"),
    ):
        assert refused(use) == "device.buffer"


def test_memory_is_counted_by_role_and_taken_in_one_piece_each(program: CudaProgram) -> None:
    assert program.memory() == {
        "param": 32,
        "state": 4 * 256,
        "input": 96 + 32,
        "output": 128 + 128 + (1 << 21),
        "scratch": 256,
    }
    assert program.counters.arenas == emulated.left().memory == 5


def test_a_closed_program_has_given_everything_back(device: CudaDevice, make_cuda: Make) -> None:
    for _ in range(3):
        program = device.load(make_cuda(), load_symbols=PAGES, trust=True)
        write_table(program)
        write_step(program)
        program.run("decode", 8)
        program.run("visit")
        program.close()
        program.close()
        assert emulated.left() == OPEN


def test_a_closed_program_refuses_everything(device: CudaDevice, make_cuda: Make) -> None:
    program = device.load(make_cuda(), load_symbols=PAGES, trust=True)
    program.close()
    for use in (
        lambda: program.run("decode"),
        lambda: program.read("x"),
        lambda: program.view("x"),
        lambda: program.write("x", np.zeros(1, np.float32)),
        program.memory,
        lambda: next(program.trace("decode")),
        program.__enter__,
    ):
        assert refused(use) == "device.closed"


def test_weights_go_to_the_gpu_in_pieces_with_progress(
    device: CudaDevice, make_cuda: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.cuda.transfer.UPLOAD_CHUNK", 12)
    heard: list[tuple[str, int, int]] = []
    with device.load(
        make_cuda(),
        load_symbols=PAGES,
        trust=True,
        progress=lambda *report: heard.append(report),
    ) as program:
        assert np.array_equal(program.read("w"), sample.WEIGHT)
    assert heard[-3:] == [("Uploading weights", done, 32) for done in (12, 24, 32)]


def test_what_a_listener_raises_leaves_nothing_behind(device: CudaDevice, make_cuda: Make) -> None:
    def listener(what: str, done: int, total: int) -> None:
        raise ValueError("I stopped listening")

    with pytest.raises(ValueError, match="I stopped listening"):
        device.load(make_cuda(), load_symbols=PAGES, trust=True, progress=listener)
    assert emulated.left() == OPEN


def test_native_code_of_others_is_not_loaded(device: CudaDevice, make_cuda: Make) -> None:
    load = lambda: device.load(make_cuda(), load_symbols=PAGES)  # noqa: E731
    assert refused(load, TrustError) == "trust.unsigned"


def test_a_program_for_a_better_gpu_is_refused_by_name(device: CudaDevice, make_cuda: Make) -> None:
    def demand(manifest: Json) -> None:
        manifest["programs"][1]["needs"] = {"arch": None, "features": ["sm_120"]}

    for chosen in (None, tiny_cuda.ID):
        with pytest.raises(DeviceError, match="sm_120") as error:
            device.load(make_cuda(demand), chosen, load_symbols=PAGES, trust=True)
        assert error.value.code == "device.no_program"


def test_load_symbols_are_checked(device: CudaDevice, make_cuda: Make) -> None:
    load = lambda: device.load(make_cuda(), load_symbols={"pages": 0}, trust=True)  # noqa: E731
    assert refused(load, PlanError) == "plan.range"


def test_a_file_that_is_no_fatbin_is_refused(device: CudaDevice, make_cuda: Make) -> None:
    bundle = make_cuda(visit=b"this is no fatbin")
    load = lambda: device.load(bundle, load_symbols=PAGES, trust=True)  # noqa: E731
    assert refused(load, BundleError) == "bundle.fatbin"


def test_a_fatbin_without_the_kernel_is_refused_by_both_names(
    device: CudaDevice, make_cuda: Make
) -> None:
    bundle = make_cuda()
    other = bundle.read(f"{tiny_cuda.FATBINS}/scale.fatbin")
    with pytest.raises(DeviceError, match=r"'visit' is not in .*visit.fatbin.*visit_kernel") as e:
        device.load(make_cuda(visit=other), load_symbols=PAGES, trust=True)
    assert e.value.code == "device.kernel"
    assert emulated.left().made <= OPEN.made
