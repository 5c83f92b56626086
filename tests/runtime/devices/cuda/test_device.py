"""The CUDA device on the emulated driver: what it launches, moves, counts and gives back.

Everything of ours runs as on a GPU; the driver and its GPU are those of tests/gpu_emulator.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_runtime.devices.cuda.device import CudaDevice, CudaProgram
from edgewise_runtime.errors import BundleError, DeviceError, TrustError
from tests.gpu_emulator.driver import emulated
from tests.gpu_emulator.driver.emulated import Left
from tests.runtime import sample
from tests.runtime.devices import tiny_cuda
from tests.runtime.devices.cuda.conftest import Make
from tests.runtime.devices.gpu_programs import (
    PAGES,
    GpuProgramTests,
    refused,
    write_step,
    write_table,
)

OPEN = Left(contexts=1, memory=0, pinned=0, made=1)
"""What stays of a GPU that was used: its context and the stream in it."""


class TestProgram(GpuProgramTests):
    """What every device with memory of its own does."""


def test_it_says_which_gpu_and_driver_it_has_and_what_they_can(device: CudaDevice) -> None:
    assert device.name == "Emulated GPU 0 (compute capability 9.0)"
    assert device.identity == f"{device.name}, driver for CUDA 12.9"
    assert {"sm_80", "sm_90"} < device.features()
    assert "sm_100" not in device.features()


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


def test_what_another_program_does_while_one_is_captured_is_no_part_of_it(
    program: CudaProgram, device: CudaDevice, make_cuda: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(program)
    write_step(program)
    copy, ones = program._mailbox.copy, np.ones((4, 8), np.float32)
    with device.load(make_cuda(), load_symbols=PAGES, trust=True) as other:

        def meanwhile(names: list[str]) -> None:
            other.write("x", ones)
            copy(names)

        monkeypatch.setattr(program._mailbox, "copy", meanwhile)
        program.run("decode", 2)
        other.write("x", 2 * ones)
        program.run("decode", 2)
        assert program.read("table")[0, 0] == 4
        assert (other.read("x") == 2).all()


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
