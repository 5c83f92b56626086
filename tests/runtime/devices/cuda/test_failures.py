"""What CUDA's device says where there is no driver or GPU, or where one of them fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.cuda import driver as drivers
from edgewise_runtime.devices.cuda.device import CudaDevice, CudaProgram
from edgewise_runtime.devices.cuda.driver import DRIVER, LIBRARY
from edgewise_runtime.devices.cuda.entry import find
from edgewise_runtime.devices.table import named_device
from edgewise_runtime.errors import DeviceError
from tests.gpu_emulator.driver import emulated
from tests.runtime.devices.cuda.conftest import Make
from tests.runtime.devices.cuda.test_device import OPEN
from tests.runtime.devices.gpu_programs import write_step, write_table
from tests.runtime.devices.programs import PAGES

LAUNCH_FAILED = 719


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER, "libcuda-that-is-not-here.so.1")
    for use in (CudaDevice, find, lambda: named_device("cuda"), lambda: named_device("cuda:0")):
        with pytest.raises(DeviceError, match="no NVIDIA driver: libcuda-that-is-not") as error:
            use()
        assert error.value.code == "device.driver"
        assert "Install NVIDIA's driver" in error.value.remedy


def test_it_looks_for_nvidias_own_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DRIVER, raising=False)
    try:
        said = [found.name for found in find()]
    except DeviceError as error:
        said = [f"{error.code} {error.message}"]
    # Without a GPU, in the loader's words.
    assert said[0] == "cuda:0" or (said[0].startswith("device.") and LIBRARY in said[0])


def test_a_library_that_is_no_driver_is_too_old_a_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER, "libm.so.6")
    with pytest.raises(DeviceError, match=r"too old: .*cuInit") as error:
        CudaDevice()
    assert (error.value.code, error.value.remedy) == (
        "device.driver",
        "Update it, to 525 or later.",
    )


def test_an_old_driver_is_refused_with_both_versions(
    driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_VERSION", "11080")
    drivers._driver.cache_clear()
    try:
        with pytest.raises(DeviceError, match=r"has CUDA 11\.8, and programs need 12\.0") as error:
            CudaDevice()
        assert error.value.code == "device.driver"
    finally:
        drivers._driver.cache_clear()


def test_a_driver_without_a_gpu_does_not_start(
    driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_GPUS", "-")
    drivers._driver.cache_clear()
    try:
        with pytest.raises(DeviceError, match="no CUDA-capable device is detected") as error:
            CudaDevice()
        assert error.value.code == "device.driver"
    finally:
        drivers._driver.cache_clear()


@pytest.mark.parametrize(
    "said",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
        "GCC version:  gcc version 11.4.0\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.129.03  Release Build\n",
    ],
)
def test_bits_are_also_those_of_the_drivers_version(
    said: str, driver: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "version"
    path.write_text(said)
    monkeypatch.setattr("edgewise_runtime.devices.cuda.gpu.KERNEL_MODULE", path)
    assert CudaDevice().identity.endswith("driver 535.129.03 for CUDA 12.9")
    path.write_text("no version")
    assert CudaDevice().identity.endswith("driver for CUDA 12.9")


def test_gpus_are_chosen_by_their_index(driver: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_GPUS", "90,75")
    assert [found.name for found in find()] == ["cuda:0", "cuda:1"]
    assert "7.5" in named_device("cuda:1").name
    with pytest.raises(DeviceError, match="no NVIDIA GPU 2") as error:
        named_device("cuda:2")
    assert error.value.code == "device.adapter"
    assert "0 is Emulated GPU 0 (compute capability 9.0)" in error.value.remedy


@pytest.mark.parametrize("arch", ["75", "70"])
def test_a_gpu_that_is_too_old_for_the_code_is_refused_with_what_there_is(
    arch: str, driver: None, make_cuda: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_GPUS", arch)
    with pytest.raises(DeviceError, match=r"sm_80, sm_90, PTX for 90.*none that runs on") as error:
        CudaDevice().load(make_cuda(), load_symbols=PAGES, trust=True)
    assert error.value.code == "device.kernel"
    assert "edgewise doctor" in error.value.remedy
    assert emulated.left() == OPEN


@pytest.mark.parametrize("arch", ["80", "86", "90", "100", "120"])
def test_later_gpus_run_code_of_their_generation_or_ptx(
    arch: str, driver: None, make_cuda: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_GPUS", arch)
    with CudaDevice().load(make_cuda(), load_symbols=PAGES, trust=True) as program:
        write_step(program)
        program.run("visit")
        assert program.read("seen").sum() == 32


def test_memory_that_does_not_suffice_is_refused_before_any_is_taken(
    driver: None, make_cuda: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_MEMORY", str(1 << 20))
    device = CudaDevice()
    assert device.available_memory() == 1 << 20
    with pytest.raises(DeviceError, match=r"needs .* GiB of memory") as error:
        device.load(make_cuda(), load_symbols=PAGES, trust=True)
    assert error.value.code == "device.memory"
    assert emulated.left() == OPEN


def test_memory_that_somebody_else_took_meanwhile_is_an_error_that_leaves_nothing(
    driver: None, make_cuda: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_EMULATED_MEMORY", str(1 << 20))
    monkeypatch.setattr(CudaDevice, "available_memory", lambda self: 1 << 40)
    with pytest.raises(DeviceError, match="does not hold the program's 2 MiB: out of mem") as error:
        CudaDevice().load(make_cuda(), load_symbols=PAGES, trust=True)
    assert error.value.code == "device.memory"
    assert "--context" in error.value.remedy
    assert emulated.left() == OPEN


def test_a_lost_gpu_is_said_to_be_lost_until_a_model_is_loaded_again(
    program: CudaProgram, device: CudaDevice, make_cuda: Make
) -> None:
    write_table(program)
    write_step(program)
    program.read("table")
    emulated.fail(1, LAUNCH_FAILED)
    program.run("decode", 8)  # the work is handed over; what goes wrong shows later
    for use in (
        lambda: program.read("table"),
        lambda: program.run("decode"),
        lambda: program.write("x", np.zeros(1, np.float32)),
        lambda: program.copy_page(0, 1),
        lambda: program.read_page(0),
    ):
        with pytest.raises(DeviceError, match="unspecified launch failure") as error:
            use()
        assert error.value.code == "device.lost"
        assert "Load the model again" in error.value.remedy
    with device.load(make_cuda(), load_symbols=PAGES, trust=True) as again:
        write_table(again)
        write_step(again)
        again.run("decode", 8)
        assert again.read("table")[0, 0] == 8
        # The context that failed is gone, and with it all that was in it.
        assert emulated.left().contexts == 1
    program.close()
    assert emulated.left() == OPEN


def test_a_lost_program_can_be_closed(program: CudaProgram) -> None:
    emulated.fail(0, LAUNCH_FAILED)
    with pytest.raises(DeviceError):
        program.read("x")
    program.close()
    assert emulated.left().contexts == 1


def test_a_gpu_lost_while_weights_are_uploaded_is_an_error(
    device: CudaDevice, make_cuda: Make
) -> None:
    emulated.fail(5, LAUNCH_FAILED)
    with pytest.raises(DeviceError) as error:
        device.load(make_cuda(), load_symbols=PAGES, trust=True)
    assert error.value.code == "device.lost"


def test_a_process_that_was_forked_cannot_use_the_gpu(
    driver: None, make_cuda: Make, kernels: Path, tmp_path: Path
) -> None:
    code = """
import os, sys
from edgewise_runtime.devices.cuda.device import CudaDevice
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle
program = CudaDevice().load(Bundle.open(sys.argv[1]), load_symbols={"pages": 4}, trust=True)
child = os.fork()
if not child:
    for use in (CudaDevice, lambda: program.run("decode"), lambda: program.read("x")):
        try:
            use()
        except DeviceError as error:
            if error.code == "device.fork":
                continue
        os._exit(1)
    program.close()
    os._exit(0)
status = os.waitpid(child, 0)[1]
program.run("decode")
assert program.read("x")[0, 0] == 0
raise SystemExit(os.waitstatus_to_exitcode(status))
"""
    bundle = make_cuda()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(bundle.path)]
    done = subprocess.run(command, env=environment, timeout=60, check=False)
    assert done.returncode == 0


def test_emulated_kernels_are_held_to_their_buffers(program: CudaProgram) -> None:
    # What the driver of these tests would not notice, they could not find.
    table = np.zeros((2, 12), np.int32)
    table[:, 8] = 1 << 20
    program.write("table", table)
    write_step(program)
    program.run("prefill")
    with pytest.raises(DeviceError, match="illegal memory access") as error:
        program.read("x")
    assert error.value.code == "device.lost"
