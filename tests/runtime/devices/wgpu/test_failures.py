"""What may go wrong with a GPU at any moment: memory, loss, interrupts, forks; and what is left."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import wgpu

from edgewise_runtime.devices.wgpu import device as device_module
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.devices.gpu_programs import begin
from tests.runtime.devices.programs import PAGES
from tests.sdk.cli.commands import environment

Make = Callable[..., Bundle]


@pytest.mark.parametrize("when", ["before a run", "after a run"])
def test_a_lost_device_is_an_error_and_loading_again_helps(make_webgpu: Make, when: str) -> None:
    device = WgpuDevice()
    program = device.load(make_webgpu(), load_symbols=PAGES)
    begin(program)
    if when == "after a run":
        program.run("decode", 8)
    program._gpu.device.destroy()
    for use in (
        lambda: program.run("decode", 8),
        lambda: program.read("table"),
        lambda: program.read("kv.0"),
        lambda: program.write("x", np.zeros(4, np.float32)),
        lambda: next(program.trace("prefill")),
        lambda: program.copy_page(0, 1),
        lambda: program.read_page(0),
        lambda: program.write_page(0, bytes(program.page_bytes)),
    ):
        with pytest.raises(DeviceError, match=": Parent device is lost") as error:
            use()
        assert error.value.code == "device.lost"
    program.close()
    with device.load(make_webgpu(), load_symbols=PAGES) as another:
        begin(another)
        another.run("decode")
        assert another.read("table")[0, 0] == 1


def test_a_device_lost_between_bursts_is_an_error_not_a_hang(make_webgpu: Make) -> None:
    program = WgpuDevice().load(make_webgpu(), load_symbols=PAGES)
    begin(program)
    codes = []

    def work() -> None:
        try:
            while True:
                program.run("decode", 8)
        except DeviceError as error:
            codes.append(error.code)

    thread = threading.Thread(target=work)
    thread.start()
    while program.counters.submits < 20:
        time.sleep(0.001)
    # On the thread of all calls, so that it never comes between a check and a submission.
    device_module._calls.call(program._gpu.device.destroy)
    thread.join(30)
    assert codes == ["device.lost"]


STARVED = """
import resource, sys
from pathlib import Path
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.errors import DeviceError

bundle = Bundle.open(sys.argv[1])
device = WgpuDevice()
device.load(bundle, load_symbols={"pages": 4}).close()
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), limits[1]))
try:
    device.load(bundle, load_symbols={"pages": (120 << 20) // 256})
except DeviceError as error:
    print(error.code, "--context" in error.remedy, error.message)
resource.setrlimit(resource.RLIMIT_AS, limits)
device.load(bundle, load_symbols={"pages": (120 << 20) // 256}).close()
"""


def test_memory_that_is_not_there_is_an_error_before_weights_are_read(make_webgpu: Make) -> None:
    bundle = make_webgpu()
    done = subprocess.run(
        [sys.executable, "-c", STARVED, str(bundle.path)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("device.memory True ")
    assert "does not hold the program's 122 MiB" in done.stdout


def test_a_failed_load_gives_its_memory_back(device: WgpuDevice, make_webgpu: Make) -> None:
    bundle = make_webgpu()
    path = bundle.file("params/cpu/00000.safetensors")
    path.write_bytes(bytes(path.stat().st_size))
    before = live_objects()
    for _ in range(3):
        with pytest.raises(Exception, match="damaged"):
            device.load(bundle, load_symbols=PAGES)
    assert live_objects() == before


def test_programs_that_were_closed_leave_nothing_behind(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    bundle = make_webgpu()

    def once() -> None:
        with device.load(bundle, load_symbols=PAGES) as program:
            begin(program)
            program.run("decode", 8)
            program.read("table")
            program.read("kv.0")
            program.copy_page(0, 1)
            program.write_page(2, program.read_page(1))

    once()
    before = live_objects()
    for _ in range(20):
        once()
    assert live_objects() == before


def live_objects() -> dict[str, int]:
    """wgpu-native's own count of what is alive, by kind."""
    gc.collect()
    counts = wgpu.diagnostics.wgpu_native_counts.get_dict()
    kinds = ("Buffer", "BindGroup", "BindGroupLayout", "ComputePipeline", "ShaderModule", "Device")
    return {kind: counts[kind]["count"] for kind in kinds if kind in counts}


def test_what_is_counted_is_alive(device: WgpuDevice, make_webgpu: Make) -> None:
    before = live_objects()
    with device.load(make_webgpu(), load_symbols=PAGES):
        assert live_objects()["Buffer"] > before["Buffer"]
