"""What may go wrong with a GPU at any moment: memory, loss, interrupts, forks; and what is left."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.vulkan.api import api
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.vulkan.gpu import close_gpus
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.devices.gpu_programs import begin
from tests.runtime.devices.programs import PAGES
from tests.sdk.cli.commands import environment

Make = Callable[..., Bundle]

OUT_OF_MEMORY, LOST = -2, -4


class Driver:
    """The loader's functions, of which some answer with an error instead of doing anything.

    Args:
        answers: of a function's name, what it answers; None where it does what it should.
    """

    def __init__(self, lib: Any, answers: Callable[[str], int | None]) -> None:
        self._lib = lib
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._lib, name)

        def call(*arguments: Any) -> Any:
            answer = self._answers(name)
            return found(*arguments) if answer is None else answer

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], int | None]], None]:
    """Puts other answers of the driver in its place."""
    lib = api().lib

    def put(answers: Callable[[str], int | None]) -> None:
        monkeypatch.setattr(api(), "lib", Driver(lib, answers))

    return put


@pytest.fixture
def fresh() -> Iterator[None]:
    """No device is open before the test, and none that it lost is left after it."""
    close_gpus()
    yield
    close_gpus()
    assert api().alive() == {}


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkWaitSemaphores"])
def test_a_lost_device_is_an_error_and_loading_again_helps(
    make_vulkan: Make, driver: Any, fresh: None, call: str
) -> None:
    device = VulkanDevice()
    program = device.load(make_vulkan(), load_symbols=PAGES, trust=True)
    begin(program)
    program.run("decode", 8)
    driver(lambda name: LOST if name == call else None)
    for use in (
        lambda: program.read("kv.0"),
        lambda: program.run("decode", 8),
        lambda: program.read("table"),
        lambda: program.write("x", np.zeros(4, np.float32)),
        lambda: next(program.trace("prefill")),
        lambda: program.copy_page(0, 1),
        lambda: program.read_page(0),
        lambda: program.write_page(0, bytes(program.page_bytes)),
    ):
        with pytest.raises(DeviceError, match="VK_ERROR_DEVICE_LOST") as error:
            use()
        assert error.value.code == "device.lost"
        assert "Load the model again" in error.value.remedy
    driver(lambda name: None)
    with device.load(make_vulkan(), load_symbols=PAGES, trust=True) as another:
        # The lost one is there as long as a program is on it.
        assert api().alive()["Device"] == 2
        program.close()
        assert api().alive()["Device"] == 1
        begin(another)
        another.run("decode")
        assert another.read("table")[0, 0] == 1


def test_a_device_lost_between_bursts_is_an_error_not_a_hang(
    make_vulkan: Make, driver: Any, fresh: None
) -> None:
    program = VulkanDevice().load(make_vulkan(), load_symbols=PAGES, trust=True)
    begin(program)
    codes = []
    begun = threading.Event()

    def work() -> None:
        try:
            while True:
                program.run("decode", 8)
                begun.set()
        except DeviceError as error:
            codes.append(error.code)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(30)
    driver(lambda name: LOST if name == "vkQueueSubmit" else None)
    thread.join(30)
    assert codes == ["device.lost"]
    driver(lambda name: None)
    program.close()
    # It went with its last program, and is not closed once more.
    with VulkanDevice().load(make_vulkan(), load_symbols=PAGES, trust=True) as another:
        assert api().alive()["Device"] == 1
        assert another.memory()


def test_whichever_call_fails_while_loading_nothing_is_left(
    make_vulkan: Make, driver: Any, fresh: None
) -> None:
    bundle = make_vulkan()
    device = VulkanDevice()
    failed: list[str] = []
    for which in range(200):
        seen = 0

        def answers(name: str, which: int = which) -> int | None:
            nonlocal seen
            if not name.startswith(("vkCreate", "vkAllocate", "vkMap", "vkBind", "vkBegin")):
                return None
            seen += 1
            if seen - 1 != which:
                return None
            failed.append(name)
            return OUT_OF_MEMORY

        before = len(failed)
        driver(answers)
        errors = []
        try:
            device.load(bundle, load_symbols=PAGES, trust=True).close()
        except DeviceError as error:
            errors.append(error)
        close_gpus()
        assert {error.code for error in errors} <= {"device.memory", "device.adapter"}
        assert all(error.remedy for error in errors)
        assert api().alive() == {}, failed[-1]
        if len(failed) == before:
            break
    assert {"vkCreateDevice", "vkCreateBuffer", "vkAllocateMemory", "vkMapMemory"} <= {*failed}
    assert {"vkCreateComputePipelines", "vkAllocateDescriptorSets"} <= {*failed}
    driver(lambda name: None)


def test_memory_that_a_driver_does_not_give_is_an_error_with_a_remedy(
    make_vulkan: Make, driver: Any, fresh: None
) -> None:
    driver(lambda name: OUT_OF_MEMORY if name == "vkAllocateMemory" else None)
    with pytest.raises(DeviceError, match="does not hold the program's 2 MiB") as error:
        VulkanDevice().load(make_vulkan(), load_symbols=PAGES, trust=True)
    assert error.value.code == "device.memory"
    assert "--context" in error.value.remedy
    driver(lambda name: None)


STARVED = """
import resource, sys
from pathlib import Path
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.errors import DeviceError

bundle = Bundle.open(sys.argv[1])
device = VulkanDevice()
device.load(bundle, load_symbols={"pages": 4}, trust=True).close()
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), limits[1]))
pages = {"pages": (120 << 20) // 256}
try:
    device.load(bundle, load_symbols=pages, trust=True)
except DeviceError as error:
    print(error.code, "--context" in error.remedy, error.message)
resource.setrlimit(resource.RLIMIT_AS, limits)
device.load(bundle, load_symbols=pages, trust=True).close()
"""


def test_memory_that_is_not_there_is_an_error_before_weights_are_read(make_vulkan: Make) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARVED, str(make_vulkan().path)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("device.memory True ")
    assert "does not hold the program's 122 MiB" in done.stdout


def test_a_failed_load_gives_its_memory_back(vulkan: VulkanDevice, make_vulkan: Make) -> None:
    bundle = make_vulkan()
    vulkan.load(bundle, load_symbols=PAGES, trust=True).close()
    path = bundle.file("params/cpu/00000.safetensors")
    path.write_bytes(bytes(path.stat().st_size))
    before = api().alive()
    for _ in range(3):
        with pytest.raises(Exception, match="damaged"):
            vulkan.load(Bundle.open(bundle.path), load_symbols=PAGES, trust=True)
    assert api().alive() == before


def test_a_load_that_is_interrupted_between_pieces_leaves_nothing(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    vulkan.load(make_vulkan(), load_symbols=PAGES, trust=True).close()
    before = api().alive()
    heard_by = []

    def listener(what: str, done: int, total: int) -> None:
        if what == "Uploading weights":
            heard_by.append(threading.get_ident())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vulkan.load(make_vulkan(), load_symbols=PAGES, trust=True, progress=listener)
    # On the thread that asked, where a Ctrl-C arrives.
    assert heard_by == [threading.get_ident()]
    assert api().alive() == before


def test_programs_that_were_closed_leave_nothing_behind(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    bundle = make_vulkan()

    def once() -> None:
        with vulkan.load(bundle, load_symbols=PAGES, trust=True) as program:
            begin(program)
            program.run("decode", 8)
            program.read("table")
            program.read("kv.0")
            program.read("logits")
            program.copy_page(0, 1)
            program.write_page(2, program.read_page(1))

    once()
    before = api().alive()
    for _ in range(20):
        once()
    assert api().alive() == before
    made = api().made["DeviceMemory"]
    once()
    assert api().made["DeviceMemory"] - made >= 6


def test_a_program_can_be_closed_while_it_is_at_work(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    before = api().alive().get("Buffer", 0)
    for work in (
        lambda program: None,
        lambda program: program.write("x", np.zeros(4, np.float32)),
        lambda program: [program.run("decode", 8) for _ in range(20)],
        lambda program: next(program.trace("prefill")),
        lambda program: program.copy_page(0, 1),
    ):
        program = vulkan.load(make_vulkan(), load_symbols=PAGES, trust=True)
        begin(program)
        work(program)
        program.close()
        assert api().alive().get("Buffer", 0) == before


def test_several_threads_may_have_programs_on_one_device(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    bundle = make_vulkan()
    found: dict[int, list[int]] = {}

    def work(which: int) -> None:
        with vulkan.load(bundle, load_symbols=PAGES, trust=True) as program:
            begin(program)
            found[which] = []
            for _ in range(20):
                program.run("decode", which)
                found[which].append(int(program.read("table")[0, 0]))

    threads = [threading.Thread(target=work, args=(which,)) for which in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {k: [k * burst for burst in range(1, 21)] for k in (1, 2, 3)}
