"""The CPU device: real kernels in real memory, and everything it refuses."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.devices.cpu import device as cpu
from edgewise_runtime.devices.cpu import tvm_library
from edgewise_runtime.devices.cpu.device import CpuDevice, CpuProgram
from edgewise_runtime.errors import BundleError, DeviceError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.installed import TVM
from tests.runtime import sample
from tests.runtime.devices.programs import PAGES, ProgramTests, refused
from tests.runtime.sample import Json

Make = Callable[..., Bundle]

LIBRARY = "programs/cpu-f32-portable/kernels.so"
PARAMS = "params/cpu/00000.safetensors"


def load(bundle: Bundle, **options: Any) -> CpuProgram:
    options = {"load_symbols": PAGES, "trust": True} | options
    return CpuDevice(2).load(bundle, **options)


class TestProgram(ProgramTests):
    """What programs of every device do."""


def test_it_is_a_device_as_the_protocol_says(program: CpuProgram) -> None:
    device: Device = CpuDevice()
    loaded: LoadedProgram = program
    assert device.target == "cpu"
    assert device.name
    assert loaded.program.id == "cpu-f32-portable"
    assert sorted(loaded.plans) == ["decode", "prefill", "spin"]


def test_kernels_run_on_parameters_in_place_and_write_state(program: CpuProgram) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    program.write("x", x)
    table = np.zeros((2, 12), np.int32)
    table[:, 8] = [3, 1]
    program.write("table", table)
    program.run("prefill")
    assert np.array_equal(program.read("x"), x * sample.WEIGHT)
    kv = program.read("kv.0")
    assert kv.shape == (4, 2, 1, 32)
    for page in (1, 3):
        assert kv[page, 0, 0, :5].tolist() == [1, 2, 3, 4, 0]
    assert not kv[[0, 2]].any()
    assert not kv[:, 1].any()


def test_the_tvm_package_and_torch_stay_out_of_the_process() -> None:
    code = (
        "import sys\n"
        "from edgewise_runtime.devices.cpu import device, tvm_library\n"
        "tvm_library.ffi()\n"
        "assert tvm_library.pool_threads() >= 1\n"
        "print([name for name in ('tvm', 'torch') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("k", [1, 3, 8])
def test_a_burst_is_that_many_single_steps(make: Make, k: int) -> None:
    states = []
    for bursts in ([k], [1] * k):
        with load(make()) as program:
            program.view("table")[:, 4] = 100
            for count in bursts:
                program.run("decode", count)
            states.append((program.read("x"), program.read("table")))
    assert np.array_equal(states[0][0], states[1][0])
    assert np.array_equal(states[0][1], states[1][1])
    assert states[0][0][0, 0] == k


def test_a_burst_ends_when_the_plan_says_stop(program: CpuProgram) -> None:
    program.view("table")[:, 4] = 3
    program.run("decode", 8)
    assert program.read("table")[:, [0, 3]].tolist() == [[3, 2], [3, 2]]
    assert program.read("x")[0, 0] == 3


def test_buffers_begin_zeroed_and_are_shared_by_plans(program: CpuProgram) -> None:
    for name in ("x", "kv.0", "table", "step"):
        assert not program.read(name).any()
    program.view("table")[:, 4] = 100
    program.run("decode")
    program.run("spin")
    assert program.read("x")[0, 0] == 1
    assert program.read("x")[1, 1] == 1


def test_reading_copies_and_viewing_does_not(program: CpuProgram) -> None:
    copied, seen = program.read("x"), program.view("x")
    rows = program.read("x", slice(1, 3))
    seen[1, 0] = 5
    assert (copied[1, 0], rows.shape) == (0, (2, 8))
    assert program.read("x", slice(1, 2))[0, 0] == 5


def test_parameters_lie_in_memory_and_cannot_be_written(program: CpuProgram) -> None:
    weight = program.view("w")
    assert np.array_equal(weight, sample.WEIGHT)
    assert not weight.flags.writeable
    assert weight.ctypes.data % 64 == 0
    assert refused(lambda: program.write("w", sample.WEIGHT)) == "device.buffer"
    mapped = Path("/proc/self/maps").read_text()
    assert str(program.bundle.path / PARAMS) not in mapped


@pytest.mark.parametrize("name", ["y", "scratch.0", ""])
def test_only_named_buffers_can_be_read(program: CpuProgram, name: str) -> None:
    assert refused(lambda: program.read(name)) == "device.buffer"
    assert refused(lambda: program.view(name)) == "device.buffer"


def test_a_kernel_that_refuses_its_input_is_an_error_of_ours(program: CpuProgram) -> None:
    program.view("step")[7] = 1
    with pytest.raises(DeviceError, match=r"decode failed: .*reserved field") as error:
        program.run("decode")
    assert error.value.code == "device.kernel"
    program.view("step")[7] = 0
    program.run("decode")
    assert program.read("x")[0, 0] == 1


def test_a_plan_can_be_traced_launch_by_launch(program: CpuProgram) -> None:
    program.view("x")[:] = 1
    program.view("table")[:, 8] = [1, 2]
    steps = list(program.trace("prefill"))
    assert [(step.label, step.kernel) for step in steps] == [
        ("layers.0.scale", "scale"),
        ("layers.0.stamp", "stamp"),
    ]
    x, marks = steps[0].outputs
    assert np.array_equal(x, np.ones((4, 1), np.float32) * sample.WEIGHT)
    assert marks[:4].tolist() == [1, 2, 3, 4]
    # State is not copied, it may be large; it was written all the same.
    assert steps[1].outputs == ()
    assert program.read("kv.0")[[1, 2], 0, 0, 3].tolist() == [4, 4]
    assert refused(lambda: next(program.trace("sing"))) == "device.plan"


def test_memory_is_counted_by_role(program: CpuProgram) -> None:
    assert program.memory() == {
        "param": 32,
        "state": 4 * 256,
        "input": 96 + 32,
        "output": 128,
        "scratch": 512,
    }


def test_memory_is_not_taken_before_it_is_touched(make: Make) -> None:
    def resident() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    with load(make(), load_symbols={"pages": 1 << 21}) as program:
        assert program.memory()["state"] == 512 << 20
        program.view("table")[:, 8] = [0, (1 << 21) - 1]
        program.run("prefill")
        assert resident() - before < 64 << 20


def test_what_a_caller_still_holds_of_a_closed_program_stays_valid_memory(make: Make) -> None:
    program = load(make())
    view = program.view("x")
    program.close()
    view[:] = 1
    assert view.sum() == 32


def test_a_library_swapped_after_the_bundle_was_opened_is_refused(make: Make) -> None:
    bundle = make()
    path = bundle.file(LIBRARY)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert refused(lambda: load(bundle), BundleError) == "bundle.checksum"


def test_a_library_compiled_again_is_not_taken_for_the_old_one(make: Make) -> None:
    bundle = make()
    load(bundle).close()
    garbage = b"not a library any more"
    (bundle.path / LIBRARY).write_bytes(garbage)
    manifest = sample.manifest() | {"files": sample.list_files(bundle.path)}
    assert manifest["files"][LIBRARY]["sha256"] == hashlib.sha256(garbage).hexdigest()
    sample.write_manifest(bundle.path, manifest)
    assert refused(lambda: load(Bundle.open(bundle.path))) == "device.library"


def test_libraries_leave_nothing_behind(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    load(make()).close()
    assert list(place.iterdir()) == []


def test_where_temporary_files_cannot_be_run_the_cache_folder_serves(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with load(make()) as program:
        program.run("spin")


def test_damaged_parameters_are_found_before_they_are_used(make: Make) -> None:
    bundle = make()
    data = bytearray(bundle.file(PARAMS).read_bytes())
    data[70] ^= 1
    bundle.file(PARAMS).write_bytes(data)
    assert refused(lambda: load(bundle), BundleError) == "bundle.checksum"


def test_a_program_that_does_not_fit_is_refused_before_anything_is_taken(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "available_memory", lambda: 1 << 20)
    with pytest.raises(DeviceError, match=r"needs 1\.00 GiB.*state 1\.00.*0\.00 GiB are") as error:
        load(make(), load_symbols={"pages": 1 << 22})
    assert error.value.code == "device.memory"
    assert "fewer KV pages" in error.value.remedy
    load(make()).close()


def test_a_program_for_a_better_machine_is_refused_by_name(make: Make) -> None:
    def demand(manifest: Json) -> None:
        manifest["programs"][0]["needs"] = {"arch": None, "features": ["avx9000"]}

    bundle = make(demand)
    for chosen in (None, "cpu-f32-portable", bundle.manifest.programs[0]):
        with pytest.raises(DeviceError, match="avx9000") as error:
            load(bundle, program=chosen)
        assert error.value.code == "device.no_program"
    assert refused(lambda: load(make(), program="cpu-f64"), BundleError) == "bundle.unknown_name"


def test_a_program_without_its_host_function_is_refused(make: Make) -> None:
    bundle = make()
    plans = sample.plans()
    plans["spin"]["host"] = "plan_missing"
    sample.write_plan(bundle.path, plans["spin"])
    assert refused(lambda: load(Bundle.open(bundle.path))) == "device.symbol"


def test_a_program_without_a_library_is_refused(make: Make) -> None:
    def drop(manifest: Json) -> None:
        manifest["programs"][0]["library"] = None

    assert refused(lambda: load(make(drop)), BundleError) == "bundle.shader"


@pytest.mark.parametrize("threads", [0, -1, 5000, 2.5, "2"])
def test_a_number_of_threads_out_of_range_is_refused(threads: Any) -> None:
    assert refused(lambda: CpuDevice(threads)) == "device.threads"


@pytest.mark.parametrize("threads", [1, 3, 2])
def test_kernels_use_as_many_threads_as_asked(make: Make, threads: int) -> None:
    with CpuDevice(threads).load(make(), load_symbols=PAGES, trust=True) as program:
        program.view("x")[:] = 1
        program.run("prefill")
        assert np.array_equal(program.read("x")[3], sample.WEIGHT)
        assert cpu._kernels.call(tvm_library.pool_threads) == threads


def test_two_programs_share_the_thread_and_nothing_else(make: Make) -> None:
    with load(make()) as first, load(make()) as second:
        before = _threads()
        first.run("spin")
        second.run("decode")
        assert first.read("x")[0, 0] == 0
        assert second.read("x")[1, 1] == 0
        assert _threads() <= before


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _threads_fall_to(count: int) -> bool:
    """Whether this process soon has no more threads; one that was joined may take its time."""
    deadline = time.perf_counter() + 5
    while _threads() > count and time.perf_counter() < deadline:
        time.sleep(0.001)
    return _threads() <= count


def test_another_number_of_threads_leaves_no_old_ones_behind(make: Make) -> None:
    def start(threads: int) -> None:
        with CpuDevice(threads).load(make(), load_symbols=PAGES, trust=True) as program:
            program.run("prefill")

    start(2)
    few = _threads()
    start(6)
    assert _threads_fall_to(few + 4)
    start(2)
    assert _threads_fall_to(few)


def test_calls_from_many_threads_take_turns(program: CpuProgram) -> None:
    program.view("table")[:, 4] = 1_000_000

    def bursts() -> None:
        for _ in range(50):
            program.run("decode", 2)

    before = _threads()
    threads = [threading.Thread(target=bursts) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert program.read("x")[0, 0] == 400
    assert _threads_fall_to(before)


def test_ctrl_c_waits_for_the_burst_and_leaves_whole_state(program: CpuProgram) -> None:
    program.view("step")[3] = 20_000_000
    done = program.view("x")[1, 1:2]
    main = threading.main_thread().ident
    assert main is not None

    def press_in_the_second_of_three() -> None:
        while not done[0]:
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press_in_the_second_of_three, daemon=True)

    def burst() -> None:
        presser.start()
        program.run("spin", 3)
        time.sleep(10)  # where the presser was kept from running, it presses in here

    with pytest.raises(KeyboardInterrupt):
        burst()
    presser.join()
    assert done[0] == 3, "all repetitions finished"
    program.run("spin")
    assert done[0] == 4


def test_a_forked_process_is_told_to_load_its_own(program: CpuProgram, make: Make) -> None:
    bundle = make()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            codes = [refused(lambda: program.run("decode"))]
            with load(bundle) as own:
                own.run("spin")
                codes.append(str(own.read("x")[1, 1]))
            status = 0 if codes == ["device.fork", "1.0"] else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    program.run("spin")


def test_a_missing_runtime_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tvm_library.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError) as error:
        tvm_library.runtime_path()
    assert error.value.code == "device.runtime"
    assert TVM.install in error.value.remedy


def test_the_runtime_that_is_carried_along_comes_after_tvms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tvm_library.runtime_path()
    monkeypatch.setattr(tvm_library, "CARRIED", tmp_path)
    (tmp_path / own.name).touch()
    assert tvm_library.runtime_path() == own
    monkeypatch.setattr(tvm_library.importlib.util, "find_spec", lambda name: None)
    assert tvm_library.runtime_path() == tmp_path / own.name
