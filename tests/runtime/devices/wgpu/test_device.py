"""The WebGPU device: real shaders on a real adapter (in tests lavapipe), and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.devices.mail import mail
from edgewise_runtime.devices.wgpu.adapter import LANGUAGE_FEATURES
from edgewise_runtime.devices.wgpu.device import WgpuDevice, WgpuProgram
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.errors import BundleError, DeviceError, EdgewiseError, PlanError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.targets import TARGETS
from tests.runtime import sample
from tests.runtime.devices import tiny_webgpu
from tests.runtime.sample import Json

Change = Callable[[Json], object]
Make = Callable[..., Bundle]

PAGES = {"pages": 4}
PARAMS = "params/cpu/00000.safetensors"
ROOT = Path(__file__).parents[4]


@pytest.fixture
def program(device: WgpuDevice, make_webgpu: Make) -> Iterator[WgpuProgram]:
    """The tiny program loaded with 4 pages."""
    with device.load(make_webgpu(), load_symbols=PAGES) as loaded:
        yield loaded


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


def test_it_is_a_device_as_the_protocol_says(program: WgpuProgram, device: WgpuDevice) -> None:
    as_device: Device = device
    loaded: LoadedProgram = program
    assert as_device.target == "webgpu"
    assert as_device.name
    assert device.adapter.driver in as_device.identity
    assert as_device.features() <= {"shader-f16", "subgroups"} | LANGUAGE_FEATURES
    assert loaded.program.id == tiny_webgpu.ID
    assert sorted(loaded.plans) == ["decode", "prefill", "visit"]


def test_kernels_read_parameters_and_write_state(program: WgpuProgram) -> None:
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


def test_buffers_begin_zeroed(program: WgpuProgram) -> None:
    for name in ("x", "kv.0", "table", "step", "seen", "logits"):
        assert not program.read(name).any()


@pytest.mark.parametrize("k", [1, 3, 8])
def test_a_burst_is_that_many_single_steps(device: WgpuDevice, make_webgpu: Make, k: int) -> None:
    states = []
    for bursts in ([k], [1] * k):
        with device.load(make_webgpu(), load_symbols=PAGES) as program:
            write_table(program)
            write_step(program)
            for count in bursts:
                program.run("decode", count)
            states.append((program.read("x"), program.read("table")))
    assert np.array_equal(states[0][0], states[1][0])
    assert np.array_equal(states[0][1], states[1][1])
    assert states[0][0][0, 0] == k


def test_a_burst_ends_when_the_kernels_say_stop(program: WgpuProgram) -> None:
    write_table(program, limit=3)
    write_step(program)
    program.run("decode", 8)
    assert program.read("table")[:, [0, 3]].tolist() == [[3, 2], [3, 0]]
    assert program.read("step")[1] == 0
    # The grid still follows what the host wrote last; the kernels see what they left there.
    program.run("decode", 8)
    assert program.read("x")[0, 0] == 3


def test_a_loaded_program_makes_nothing_and_submits_once_a_run(program: WgpuProgram) -> None:
    write_table(program)
    write_step(program)
    before = program.counters
    made = (before.buffers, before.pipelines, before.bind_groups)
    submits, dispatches, readbacks = before.submits, before.dispatches, before.readbacks
    program.run("decode", 8)
    table, step = program.read("table"), program.read("step", slice(0, 2))
    after = program.counters
    assert (table[0, 0], step.tolist()) == (8, [4, 2])
    assert (after.buffers, after.pipelines, after.bind_groups) == made
    assert after.submits == submits + 1
    assert after.dispatches == dispatches + 8
    # One look brings home all that the plan wrote.
    assert after.readbacks == readbacks + 1


def test_a_process_compiles_a_kernel_once(make_webgpu: Make) -> None:
    with WgpuDevice().load(make_webgpu(), load_symbols=PAGES) as first:
        assert first.counters.bind_groups == len(tiny_webgpu.KERNELS)
    with WgpuDevice().load(make_webgpu(), load_symbols=PAGES) as second:
        assert second.counters.pipelines == 0
        assert second.counters.bind_groups == first.counters.bind_groups


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
    program: WgpuProgram, step: tuple[int, ...], columns: int, rows: int
) -> None:
    write_step(program, *step)
    program.run("visit")
    expected = np.zeros((8, 4), np.float32)
    expected[:columns, :rows] = 1
    assert np.array_equal(program.read("seen"), expected)


def test_a_symbol_can_be_written_by_itself(program: WgpuProgram) -> None:
    write_step(program, n=1, b=1, r=1, t=1)
    program.write("step", np.array([2, 33], np.int32), 2)
    program.run("visit")
    assert program.read("seen").sum() == 2 * 3


def test_what_the_host_writes_after_a_run_is_what_it_reads(program: WgpuProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode", 2)
    program.write("table", np.array([77], np.int32), 12)
    table = program.read("table")
    assert table[:, 0].tolist() == [2, 77]
    program.run("decode")
    assert program.read("table")[:, 0].tolist() == [3, 78]


def test_buffers_of_earlier_runs_stay_readable(program: WgpuProgram) -> None:
    write_table(program)
    write_step(program)
    program.run("decode")
    program.run("visit")
    program.run("visit")
    readbacks = program.counters.readbacks
    assert program.read("seen")[0, 0] == 2
    assert program.read("table")[0, 0] == 1
    assert program.counters.readbacks == readbacks + 1


def test_writing_goes_to_an_offset_in_elements(program: WgpuProgram) -> None:
    program.write("x", np.array([[1, 2], [3, 4]], np.float32), 7)
    assert program.read("x").reshape(-1)[6:12].tolist() == [0, 1, 2, 3, 4, 0]
    program.write("x", np.zeros(0, np.float32), 32)
    program.write("x", np.arange(64, dtype=np.float32).reshape(8, 8)[::2])
    assert program.read("x")[3].tolist() == list(range(48, 56))


@pytest.mark.parametrize(
    "rows", [slice(1, 3), slice(None, 2), slice(2, None), slice(0, 0), slice(None, None, 2)]
)
def test_rows_are_read_by_themselves(program: WgpuProgram, rows: slice) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    program.write("x", x)
    assert np.array_equal(program.read("x", rows), x[rows])
    logits = np.arange(1 << 19, dtype=np.float32).reshape(2, 1 << 18)
    program.write("logits", logits)
    assert np.array_equal(program.read("logits", rows), logits[rows])


@pytest.mark.parametrize("columns", [slice(0, 2), slice(7, 13), slice(None), slice(3, 3)])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 1), slice(None), slice(None, None, 2)])
def test_columns_are_read_by_themselves(program: WgpuProgram, rows: slice, columns: slice) -> None:
    for name, shape in (("x", (4, 8)), ("logits", (2, 1 << 18))):
        values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        program.write(name, values)
        assert np.array_equal(program.read(name, rows, columns), values[rows, columns])


def test_of_long_rows_only_what_is_asked_for_comes_home(program: WgpuProgram) -> None:
    before = program.counters.buffers
    for _ in range(3):
        assert not program.read("logits", slice(0, 2), slice(1, 5)).any()
    # All of them would need a larger buffer to land in.
    assert program.counters.buffers == before


@pytest.mark.parametrize(("bytes_of_table", "sent"), [(1 << 20, ["table"]), (1 << 21, [])])
def test_a_table_of_megabytes_is_not_sent_along_with_every_run(
    program: WgpuProgram, bytes_of_table: int, sent: list[str]
) -> None:
    sizes = {buffer.name: 64 for buffer in program.plans["decode"].buffers}
    names = mail(program.plans["decode"], {**sizes, "table": bytes_of_table})
    assert [name for name in names if name == "table"] == sent


def test_a_read_larger_than_any_before_grows_its_way_home_once(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    with device.load(make_webgpu(), load_symbols={"pages": 1 << 14}) as program:
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
    program: WgpuProgram, name: str, values: Any, offset: int
) -> None:
    assert refused(lambda: program.write(name, values, offset)) == "device.buffer"
    assert not program.read("x").any()


@pytest.mark.parametrize("name", ["y", "scratch.0", ""])
def test_only_named_buffers_can_be_read_and_none_viewed(program: WgpuProgram, name: str) -> None:
    assert refused(lambda: program.read(name)) == "device.buffer"
    assert refused(lambda: program.view("x")) == "device.buffer"


@pytest.mark.parametrize(
    ("plan", "k"), [("decode", 0), ("decode", 9), ("decode", -1), ("prefill", 2), ("sing", 1)]
)
def test_only_what_the_plans_allow_is_run(program: WgpuProgram, plan: str, k: int) -> None:
    assert refused(lambda: program.run(plan, k)) == "device.plan"


def test_a_plan_can_be_traced_launch_by_launch(program: WgpuProgram) -> None:
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


def test_memory_is_counted_by_role(program: WgpuProgram) -> None:
    assert program.memory() == {
        "param": 32,
        "state": 4 * 256,
        "input": 96 + 32,
        "output": 128 + 128 + (1 << 21),
        "scratch": 256,
    }


def test_a_closed_program_refuses_everything(device: WgpuDevice, make_webgpu: Make) -> None:
    program = device.load(make_webgpu(), load_symbols=PAGES)
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
    device: WgpuDevice, make_webgpu: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise_runtime.devices.wgpu.transfer.UPLOAD_CHUNK", 12)
    monkeypatch.setattr("edgewise_runtime.devices.wgpu.transfer.UPLOAD_AHEAD", 24)
    heard: list[tuple[str, int, int]] = []
    with device.load(
        make_webgpu(), load_symbols=PAGES, progress=lambda *report: heard.append(report)
    ) as program:
        assert np.array_equal(program.read("w"), sample.WEIGHT)
    assert heard[-3:] == [("Uploading weights", done, 32) for done in (12, 24, 32)]


def test_what_a_listener_raises_is_not_taken_for_a_failure_of_the_gpu(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    def listener(what: str, done: int, total: int) -> None:
        raise ValueError("I stopped listening")

    with pytest.raises(ValueError, match="I stopped listening"):
        device.load(make_webgpu(), load_symbols=PAGES, progress=listener)


def test_the_bundle_has_to_have_a_program(device: WgpuDevice, make_webgpu: Make) -> None:
    def only_cpu(manifest: Json) -> None:
        manifest["programs"] = manifest["programs"][:1]

    bundle = make_webgpu(only_cpu)
    with pytest.raises(DeviceError, match="no webgpu program; it has cpu-f32-portable") as error:
        device.load(bundle, load_symbols=PAGES)
    assert f"--target webgpu -o {bundle.path}" in error.value.remedy
    assert refused(
        lambda: device.load(make_webgpu(), "webgpu-f64", load_symbols=PAGES), BundleError
    )


def test_a_program_for_a_better_adapter_is_refused_by_name(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    def demand(manifest: Json) -> None:
        manifest["programs"][1]["needs"] = {"arch": None, "features": ["warp-drive"]}

    for chosen in (None, tiny_webgpu.ID):
        with pytest.raises(DeviceError, match="warp-drive") as error:
            device.load(make_webgpu(demand), chosen, load_symbols=PAGES)
        assert error.value.code == "device.no_program"
    load = lambda: device.load(make_webgpu(), "cpu-f32-portable", load_symbols=PAGES)  # noqa: E731
    assert refused(load) == "device.no_program"


@pytest.mark.parametrize(
    ("symbols", "code"),
    [({}, "plan.symbol"), ({"pages": 0}, "plan.range"), ({"pages": 1 << 30}, "plan.range")],
)
def test_load_symbols_are_checked(
    device: WgpuDevice, make_webgpu: Make, symbols: dict[str, int], code: str
) -> None:
    assert refused(lambda: device.load(make_webgpu(), load_symbols=symbols), PlanError) == code


def test_a_buffer_beyond_the_adapters_limit_is_refused_with_both_numbers(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    most = device.largest_buffer()
    pages = most // 256 + 1
    with pytest.raises(DeviceError) as error:
        device.load(make_webgpu(), load_symbols={"pages": pages})
    assert error.value.code == "device.memory"
    assert "'kv.0'" in error.value.message
    assert f"{pages * 256:,}" in error.value.message
    assert f"{most:,}" in error.value.message
    assert "--context" in error.value.remedy


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("this is no WGSL", r"expected global item .* found \"this\""),
        ("@compute @workgroup_size(1) fn other() {}", "Unable to find entry point 'visit_kernel'"),
        # The plan says that the kernel only reads its second buffer.
        (
            "@group(0) @binding(1) var<storage, read_write> b: array<i32>;\n"
            "@compute @workgroup_size(1) fn visit_kernel() { b[0] = 1; }",
            "doesn't match the shader",
        ),
    ],
)
def test_a_kernel_the_driver_refuses_is_named(
    device: WgpuDevice, make_webgpu: Make, source: str, says: str
) -> None:
    with pytest.raises(
        DeviceError, match=f"The kernel 'visit' does not compile: .*{says}"
    ) as error:
        device.load(make_webgpu(visit=source), load_symbols=PAGES)
    assert error.value.code == "device.kernel"
    assert "│" not in error.value.message


def test_damaged_shaders_and_parameters_are_found_before_they_are_used(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    for name in ("programs/webgpu/visit.wgsl", PARAMS):
        bundle = make_webgpu()
        data = bytearray(bundle.file(name).read_bytes())
        data[70] ^= 1
        bundle.file(name).write_bytes(data)
        load = lambda: device.load(bundle, load_symbols=PAGES)  # noqa: B023, E731
        assert refused(load, BundleError) == "bundle.checksum"


@pytest.mark.parametrize("source", ["//" + "x" * TARGETS["webgpu"].largest_file, "\udcff"])
def test_shaders_that_are_no_text_or_endless_are_refused(
    device: WgpuDevice, make_webgpu: Make, source: str
) -> None:
    bundle = make_webgpu()
    path = bundle.file("programs/webgpu/visit.wgsl")
    path.write_bytes(source.encode(errors="surrogateescape"))
    manifest = sample.read_manifest(bundle.path)
    manifest["files"] = sample.list_files(bundle.path)
    sample.write_manifest(bundle.path, manifest)
    opened = Bundle.open(bundle.path)
    assert refused(lambda: device.load(opened, load_symbols=PAGES), BundleError) == "bundle.shader"


def test_the_line_that_enables_subgroups_is_no_hindrance(
    device: WgpuDevice, make_webgpu: Make, shaders: dict[str, Json]
) -> None:
    source = "enable subgroups;\n" + shaders["visit"]["source"]
    with device.load(make_webgpu(visit=source), load_symbols=PAGES) as program:
        write_step(program)
        program.run("visit")
        assert program.read("seen").sum() == 32
