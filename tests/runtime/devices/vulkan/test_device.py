"""The Vulkan device: real modules on a real device (in tests lavapipe), and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.devices.mail import mail
from edgewise_runtime.devices.vulkan.adapter import PROGRAM_FEATURES
from edgewise_runtime.devices.vulkan.device import VulkanDevice, VulkanProgram
from edgewise_runtime.errors import BundleError, DeviceError, EdgewiseError, PlanError, TrustError
from edgewise_runtime.format.bundle import Bundle
from tests.runtime import sample
from tests.runtime.devices import tiny_vulkan, tiny_webgpu
from tests.runtime.devices.vulkan.conftest import write_step, write_table
from tests.runtime.sample import Json

Change = Callable[[Json], object]
Make = Callable[..., Bundle]

PAGES = {"pages": 4}
PARAMS = "params/cpu/00000.safetensors"


def refused(action: Callable[[], object], kind: type[EdgewiseError] = DeviceError) -> str:
    """The code of the error an action raises."""
    with pytest.raises(kind) as error:
        action()
    return error.value.code


def test_it_is_a_device_as_the_protocol_says(program: VulkanProgram, vulkan: VulkanDevice) -> None:
    as_device: Device = vulkan
    loaded: LoadedProgram = program
    assert as_device.target == "vulkan"
    assert as_device.name
    assert vulkan.adapter.driver in as_device.identity
    assert as_device.features() <= PROGRAM_FEATURES.keys()
    assert loaded.program.id == tiny_vulkan.ID
    assert sorted(loaded.plans) == ["decode", "prefill", "visit"]


def test_kernels_read_parameters_and_write_state(program: VulkanProgram) -> None:
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


def test_buffers_begin_zeroed(program: VulkanProgram) -> None:
    for name in ("x", "kv.0", "table", "step", "seen", "logits"):
        assert not program.read(name).any()


def test_a_process_compiles_a_kernel_once(make_vulkan: Make) -> None:
    with VulkanDevice().load(make_vulkan(), load_symbols=PAGES, trust=True) as first:
        assert first.counters.descriptor_sets == len(tiny_webgpu.KERNELS)
    with VulkanDevice().load(make_vulkan(), load_symbols=PAGES, trust=True) as second:
        assert second.counters.pipelines == 0
        assert second.counters.descriptor_sets == first.counters.descriptor_sets


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
    program: VulkanProgram, step: tuple[int, ...], columns: int, rows: int
) -> None:
    write_step(program, *step)
    program.run("visit")
    expected = np.zeros((8, 4), np.float32)
    expected[:columns, :rows] = 1
    assert np.array_equal(program.read("seen"), expected)


def test_a_symbol_can_be_written_by_itself(program: VulkanProgram) -> None:
    write_step(program, n=1, b=1, r=1, t=1)
    program.write("step", np.array([2, 33], np.int32), 2)
    program.run("visit")
    assert program.read("seen").sum() == 2 * 3


def test_what_the_host_writes_after_a_run_is_what_it_reads(program: VulkanProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode", 2)
    program.write("table", np.array([77], np.int32), 12)
    table = program.read("table")
    assert table[:, 0].tolist() == [2, 77]
    program.run("decode")
    assert program.read("table")[:, 0].tolist() == [3, 78]


def test_buffers_of_earlier_runs_stay_readable(program: VulkanProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode")
    program.run("visit")
    program.run("visit")
    readbacks = program.counters.readbacks
    assert program.read("seen")[0, 0] == 2
    assert program.read("table")[0, 0] == 1
    assert program.counters.readbacks == readbacks + 1


def test_writing_goes_to_an_offset_in_elements(program: VulkanProgram) -> None:
    program.write("x", np.array([[1, 2], [3, 4]], np.float32), 7)
    assert program.read("x").reshape(-1)[6:12].tolist() == [0, 1, 2, 3, 4, 0]
    program.write("x", np.zeros(0, np.float32), 32)
    program.write("x", np.arange(64, dtype=np.float32).reshape(8, 8)[::2])
    assert program.read("x")[3].tolist() == list(range(48, 56))


@pytest.mark.parametrize(
    "rows", [slice(1, 3), slice(None, 2), slice(2, None), slice(0, 0), slice(None, None, 2)]
)
def test_rows_are_read_by_themselves(program: VulkanProgram, rows: slice) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    program.write("x", x)
    assert np.array_equal(program.read("x", rows), x[rows])
    logits = np.arange(1 << 19, dtype=np.float32).reshape(2, 1 << 18)
    program.write("logits", logits)
    assert np.array_equal(program.read("logits", rows), logits[rows])


@pytest.mark.parametrize("columns", [slice(0, 2), slice(7, 13), slice(None), slice(3, 3)])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 1), slice(None), slice(None, None, 2)])
def test_columns_are_read_by_themselves(
    program: VulkanProgram, rows: slice, columns: slice
) -> None:
    for name, shape in (("x", (4, 8)), ("logits", (2, 1 << 18))):
        values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        program.write(name, values)
        assert np.array_equal(program.read(name, rows, columns), values[rows, columns])


def test_of_long_rows_only_what_is_asked_for_comes_home(program: VulkanProgram) -> None:
    before = program.counters.buffers
    for _ in range(3):
        assert not program.read("logits", slice(0, 2), slice(1, 5)).any()
    # All of them would need a larger buffer to land in.
    assert program.counters.buffers == before


@pytest.mark.parametrize(("bytes_of_table", "sent"), [(1 << 20, ["table"]), (1 << 21, [])])
def test_a_table_of_megabytes_is_not_sent_along_with_every_run(
    program: VulkanProgram, bytes_of_table: int, sent: list[str]
) -> None:
    sizes = {buffer.name: 64 for buffer in program.plans["decode"].buffers}
    names = mail(program.plans["decode"], {**sizes, "table": bytes_of_table})
    assert [name for name in names if name == "table"] == sent


def test_a_read_larger_than_any_before_grows_its_way_home_once(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    with vulkan.load(make_vulkan(), load_symbols={"pages": 1 << 14}, trust=True) as program:
        buffers = program.counters.buffers
        state = np.arange(1 << 20, dtype=np.float32)
        program.write("kv.0", state)
        assert np.array_equal(program.read("kv.0").reshape(-1), state)
        assert program.counters.buffers == buffers + 1
        assert np.array_equal(program.read("kv.0", slice(1, 3)).reshape(-1), state[64:192])
        assert program.counters.buffers == buffers + 1


@pytest.mark.parametrize(
    ("name", "values", "offset"),
    [
        ("x", np.zeros(8, np.float64), 0),
        ("x", np.zeros(8, np.int32), 0),
        ("x", np.zeros(33, np.float32), 0),
        ("x", np.zeros(8, np.float32), 25),
        ("x", np.zeros(8, np.float32), -1),
        ("w", np.zeros(8, np.float32), 0),
        ("y", np.zeros(8, np.float32), 0),
        ("scratch.0", np.zeros(8, np.uint8), 0),
    ],
)
def test_a_write_that_does_not_fit_is_refused(
    program: VulkanProgram, name: str, values: Any, offset: int
) -> None:
    assert refused(lambda: program.write(name, values, offset)) == "device.buffer"
    assert not program.read("x").any()


@pytest.mark.parametrize("name", ["y", "scratch.0", ""])
def test_only_named_buffers_can_be_read_and_none_viewed(program: VulkanProgram, name: str) -> None:
    assert refused(lambda: program.read(name)) == "device.buffer"
    assert refused(lambda: program.view("x")) == "device.buffer"


@pytest.mark.parametrize(
    ("plan", "k"), [("decode", 0), ("decode", 9), ("decode", -1), ("prefill", 2), ("sing", 1)]
)
def test_only_what_the_plans_allow_is_run(program: VulkanProgram, plan: str, k: int) -> None:
    assert refused(lambda: program.run(plan, k)) == "device.plan"


def test_a_plan_can_be_traced_launch_by_launch(program: VulkanProgram) -> None:
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


def test_memory_is_counted_by_role(program: VulkanProgram) -> None:
    assert program.memory() == {
        "param": 32,
        "state": 4 * 256,
        "input": 96 + 32,
        "output": 128 + 128 + (1 << 21),
        "scratch": 256,
    }


def test_a_closed_program_refuses_everything(vulkan: VulkanDevice, make_vulkan: Make) -> None:
    program = vulkan.load(make_vulkan(), load_symbols=PAGES, trust=True)
    program.close()
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
    vulkan: VulkanDevice, make_vulkan: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.vulkan.line.PIECE", 16)
    heard: list[tuple[str, int, int]] = []
    with vulkan.load(
        make_vulkan(), load_symbols=PAGES, trust=True, progress=lambda *report: heard.append(report)
    ) as program:
        assert np.array_equal(program.read("w"), sample.WEIGHT)
    assert heard[-2:] == [("Uploading weights", done, 32) for done in (16, 32)]


def test_what_is_larger_than_the_window_goes_through_it_in_turn(
    vulkan: VulkanDevice, make_vulkan: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.vulkan.line.PIECE", 1 << 12)
    rng = np.random.default_rng(71)
    with vulkan.load(make_vulkan(), load_symbols={"pages": 256}, trust=True) as program:
        expected = np.zeros(256 * 64, np.float32)
        for size in (1, 1023, 1024, 1025, 5000, 16384):
            at = int(rng.integers(0, len(expected) - size + 1))
            values = rng.standard_normal(size).astype(np.float32)
            expected[at : at + size] = values
            program.write("kv.0", values, at)
            # Over what was just written, on its way yet.
            program.write("kv.0", values[:1] + 1, at)
            expected[at] = values[0] + 1
            if size % 2:
                assert np.array_equal(program.read("kv.0").reshape(-1), expected)
        assert np.array_equal(program.read("kv.0").reshape(-1), expected)


def test_what_a_listener_raises_is_not_taken_for_a_failure_of_the_gpu(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    def listener(what: str, done: int, total: int) -> None:
        raise ValueError("I stopped listening")

    with pytest.raises(ValueError, match="I stopped listening"):
        vulkan.load(make_vulkan(), load_symbols=PAGES, trust=True, progress=listener)


def test_the_bundle_has_to_have_a_program(vulkan: VulkanDevice, make_vulkan: Make) -> None:
    def only_cpu(manifest: Json) -> None:
        manifest["programs"] = manifest["programs"][:1]

    bundle = make_vulkan(only_cpu)
    with pytest.raises(DeviceError, match="no vulkan program; it has cpu-f32-portable") as error:
        vulkan.load(bundle, load_symbols=PAGES, trust=True)
    assert f"--target vulkan -o {bundle.path}" in error.value.remedy
    assert refused(
        lambda: vulkan.load(make_vulkan(), "webgpu-f64", load_symbols=PAGES, trust=True),
        BundleError,
    )


def test_a_program_for_a_better_adapter_is_refused_by_name(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    def demand(manifest: Json) -> None:
        manifest["programs"][1]["needs"] = {"arch": None, "features": ["warp-drive"]}

    for chosen in (None, tiny_vulkan.ID):
        with pytest.raises(DeviceError, match="warp-drive") as error:
            vulkan.load(make_vulkan(demand), chosen, load_symbols=PAGES, trust=True)
        assert error.value.code == "device.no_program"
    load = lambda: vulkan.load(make_vulkan(), "cpu-f32-portable", load_symbols=PAGES, trust=True)  # noqa: E731
    assert refused(load) == "device.no_program"


@pytest.mark.parametrize(
    ("symbols", "code"),
    [({}, "plan.symbol"), ({"pages": 0}, "plan.range"), ({"pages": 1 << 30}, "plan.range")],
)
def test_load_symbols_are_checked(
    vulkan: VulkanDevice, make_vulkan: Make, symbols: dict[str, int], code: str
) -> None:
    assert refused(lambda: vulkan.load(make_vulkan(), load_symbols=symbols), PlanError) == code


def test_a_buffer_beyond_the_adapters_limit_is_refused_with_both_numbers(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    most = vulkan.largest_buffer()
    pages = most // 256 + 1
    with pytest.raises(DeviceError) as error:
        vulkan.load(make_vulkan(), load_symbols={"pages": pages}, trust=True)
    assert error.value.code == "device.memory"
    assert "'kv.0'" in error.value.message
    assert f"{pages * 256:,}" in error.value.message
    assert f"{most:,}" in error.value.message
    assert "--context" in error.value.remedy


def test_damaged_modules_and_parameters_are_found_before_they_are_used(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    for name in ("programs/vulkan/visit.spv", PARAMS):
        bundle = make_vulkan()
        data = bytearray(bundle.file(name).read_bytes())
        data[70] ^= 1
        bundle.file(name).write_bytes(data)
        load = lambda: vulkan.load(bundle, load_symbols=PAGES, trust=True)  # noqa: B023, E731
        assert refused(load, BundleError) == "bundle.checksum"


def test_modules_are_native_code_that_has_to_be_trusted(
    vulkan: VulkanDevice, make_vulkan: Make
) -> None:
    load = lambda: vulkan.load(make_vulkan(), load_symbols=PAGES)  # noqa: E731
    assert refused(load, TrustError) == "trust.unsigned"


def test_a_module_that_is_not_what_the_plan_says_is_refused(
    vulkan: VulkanDevice, make_vulkan: Make, modules: dict[str, bytes]
) -> None:
    for visit in (b"", b"this is no SPIR-V", modules["stamp"]):
        bundle = make_vulkan(visit=visit)
        load = lambda: vulkan.load(bundle, load_symbols=PAGES, trust=True)  # noqa: B023, E731
        assert refused(load, BundleError) == "bundle.shader"
