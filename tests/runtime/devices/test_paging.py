"""Pages of state copied, read and written: on the CPU and on a GPU alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from edgewise_runtime.devices.base import Array, LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.paging import PageRow, Paging
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.devices.wgpu.pages import check_rows
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.errors import DeviceError, UnsupportedError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.kv.budget import pool_pages
from tests.format.cases import Case, cases, edited, what
from tests.runtime import sample
from tests.runtime.devices import tiny_vulkan
from tests.runtime.sample import Json

Make = Callable[..., Bundle]
Load = Callable[[], LoadedProgram]

PAGES = 5

PAGED: dict[str, Json] = {
    name: {"dtype": dtype, "shape": ["pages", *shape], "bytes": ["mul", "pages", size]}
    for name, dtype, shape, size in (
        ("kv.0", "int8", [2, 1, 64], 128),
        ("kv.1", "int8", [2, 1, 64], 128),
        ("kv_scale.0", "uint32", [1, 16], 64),
        ("kv_scale.1", "uint32", [1, 16], 64),
    )
}
"""Two layers of int8 pages, one head of 4: in the order of a page's bytes."""

STATE = PAGED | {"counts": {"dtype": "int32", "shape": [2, 32], "bytes": 256}}
PAGE_BYTES = 2 * (128 + 64)
SYMBOLS = {"vulkan": tiny_vulkan.ENTRY}
NOTHING = {
    "webgpu": ("more.wgsl", b"@compute @workgroup_size(1) fn more_kernel() {}"),
    "vulkan": ("more.spv", tiny_vulkan.NOTHING),
}


def with_codes(bundle: Bundle, target: str) -> Bundle:
    """The bundle, opened again, with one program: it has a plan over the state in `STATE`."""
    file, nothing = NOTHING.get(target, ("", b""))
    args = [
        sample.arg(name, buffer["dtype"], buffer["shape"], "readwrite")
        for name, buffer in STATE.items()
    ]
    plan = {
        "version": 4,
        "name": "more",
        "target": target,
        "max_burst": 1,
        "symbols": sample.SYMBOLS[:1],
        "buffers": [{"name": name, "role": "state", **buffer} for name, buffer in STATE.items()],
        "kernels": {"more": {"symbol": SYMBOLS.get(target, "more_kernel"), "args": args}},
        "steps": [
            {
                "kernel": "more",
                "bindings": [{"buffer": name, "offset": 0} for name in STATE],
                "grid": [1, 1, 1],
                "reads": list(STATE),
                "writes": list(STATE),
                "label": "more",
            }
        ],
    }
    manifest = sample.read_manifest(bundle.path)
    (program,) = [item for item in manifest["programs"] if item["target"] == target]
    program |= {"plans": {"more": "more.json"}, "entries": {}}
    program |= {"state_dtype": "int8", "page_bytes": [PAGE_BYTES]}
    group = {"layers": [0, 1], "head_dim": 4}
    group |= {"buffers": ["kv.0", "kv.1"], "scales": ["kv_scale.0", "kv_scale.1"]}
    manifest["state_groups"][0] |= group
    # For `counts`, and two layers of pages.
    manifest["model"] |= {"layers": 2, "vocab": 32, "head_dim": 4}
    manifest["programs"] = [program]
    if file:
        program["shaders"]["more"] = file
        (bundle.path / file).write_bytes(nothing)
    else:
        # Never run: any function of the library does.
        plan["host"] = "plan_spin"
    (bundle.path / "more.json").write_text(json.dumps(plan))
    manifest["files"] = sample.list_files(bundle.path)
    sample.write_manifest(bundle.path, manifest)
    return Bundle.open(bundle.path)


@pytest.fixture(params=["cpu", "webgpu", "vulkan"])
def load(request: pytest.FixtureRequest) -> Load:
    """Loads a tiny program with four paged state buffers and one that is not."""
    symbols = {"pages": PAGES}
    if request.param == "cpu":
        bundle = with_codes(request.getfixturevalue("make")(), "cpu")
        return lambda: CpuDevice(2).load(bundle, load_symbols=symbols, trust=True)
    if request.param == "vulkan":
        modules = with_codes(request.getfixturevalue("make_vulkan")(), "vulkan")
        return lambda: VulkanDevice().load(modules, load_symbols=symbols, trust=True)
    device: WgpuDevice = request.getfixturevalue("device")
    other = with_codes(request.getfixturevalue("make_webgpu")(), "webgpu")
    return lambda: device.load(other, load_symbols=symbols)


@pytest.fixture
def program(load: Load) -> Iterator[LoadedProgram]:
    with load() as loaded:
        yield loaded


def fill(program: LoadedProgram) -> dict[str, Array]:
    """Write noise to all state; returns it by buffer."""
    rng = np.random.default_rng(7)
    noise = {}
    for name in STATE:
        blank = program.read(name)
        noise[name] = rng.integers(0, 99, blank.shape).astype(blank.dtype)
        program.write(name, noise[name])
    return noise


def state(program: LoadedProgram) -> dict[str, Array]:
    return {name: program.read(name) for name in STATE}


def assert_equal(found: dict[str, Array], expected: dict[str, Array]) -> None:
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }


def test_a_page_is_its_row_of_every_paged_buffer(program: LoadedProgram) -> None:
    noise = fill(program)
    assert program.page_bytes == PAGE_BYTES
    for page in (0, 3, PAGES - 1):
        expected = b"".join(noise[name][page].tobytes() for name in PAGED)
        assert program.read_page(page) == expected
    assert_equal(state(program), noise)


@pytest.mark.parametrize(("source", "target"), [(0, 4), (4, 1), (2, 2)])
def test_a_copied_page_is_the_other_in_every_paged_buffer(
    program: LoadedProgram, source: int, target: int
) -> None:
    noise = fill(program)
    program.copy_page(source, target)
    for name in PAGED:
        noise[name][target] = noise[name][source]
    assert_equal(state(program), noise)


def test_copies_happen_in_order(program: LoadedProgram) -> None:
    noise = fill(program)
    for target in range(1, PAGES):
        program.copy_page(target - 1, target)
    for name in PAGED:
        noise[name][:] = noise[name][0]
    assert_equal(state(program), noise)


def test_a_written_page_is_what_was_read_in_every_paged_buffer(program: LoadedProgram) -> None:
    noise = fill(program)
    first, last = program.read_page(0), program.read_page(PAGES - 1)
    program.write_page(PAGES - 1, first)
    program.write_page(0, last)
    assert (program.read_page(0), program.read_page(PAGES - 1)) == (last, first)
    for name in PAGED:
        noise[name][[0, -1]] = noise[name][[-1, 0]]
    assert_equal(state(program), noise)


def test_a_page_survives_the_program(load: Load) -> None:
    with load() as program:
        fill(program)
        kept = program.read_page(3)
    with load() as another:
        another.write_page(1, kept)
        assert another.read_page(1) == kept
        assert not any(another.read_page(3))


@pytest.mark.parametrize("page", [-1, PAGES, 1 << 40])
def test_a_page_that_is_not_there_is_refused(program: LoadedProgram, page: int) -> None:
    noise = fill(program)
    data = bytes(PAGE_BYTES)
    for use in (
        lambda: program.copy_page(0, page),
        lambda: program.copy_page(page, 0),
        lambda: program.read_page(page),
        lambda: program.write_page(page, data),
    ):
        with pytest.raises(DeviceError, match=f"Page {page} is not one of .* {PAGES}") as error:
            use()
        assert error.value.code == "device.buffer"
    assert_equal(state(program), noise)


@pytest.mark.parametrize("size", [0, PAGE_BYTES - 1, PAGE_BYTES + 1])
def test_a_page_of_another_size_is_refused(program: LoadedProgram, size: int) -> None:
    noise = fill(program)
    with pytest.raises(DeviceError, match=f"{PAGE_BYTES} bytes, not {size}") as error:
        program.write_page(2, bytes(size))
    assert error.value.code == "device.buffer"
    assert_equal(state(program), noise)


def test_a_closed_program_has_no_pages(program: LoadedProgram) -> None:
    program.close()
    for use in (
        lambda: program.copy_page(0, 1),
        lambda: program.read_page(0),
        lambda: program.write_page(0, bytes(PAGE_BYTES)),
    ):
        with pytest.raises(DeviceError) as error:
            use()
        assert error.value.code == "device.closed"


@pytest.fixture(params=["cpu", "webgpu", "vulkan"])
def running(request: pytest.FixtureRequest) -> Iterator[LoadedProgram]:
    """The tiny program, whose plans write pages."""
    symbols = {"pages": PAGES}
    if request.param == "cpu":
        bundle: Bundle = request.getfixturevalue("make")()
        loaded: LoadedProgram = CpuDevice(2).load(bundle, load_symbols=symbols, trust=True)
    elif request.param == "vulkan":
        modules: Bundle = request.getfixturevalue("make_vulkan")()
        loaded = VulkanDevice().load(modules, load_symbols=symbols, trust=True)
    else:
        device: WgpuDevice = request.getfixturevalue("device")
        loaded = device.load(request.getfixturevalue("make_webgpu")(), load_symbols=symbols)
    with loaded:
        yield loaded


def test_pages_follow_the_runs_before(running: LoadedProgram) -> None:
    program = running
    table = np.zeros((2, 12), np.int32)
    table[:, 8] = [3, 1]
    program.write("table", table)
    program.write("step", step_array(4, 2, 2, 64))
    program.run("prefill")
    program.copy_page(3, 0)
    program.run("prefill")
    marks = [np.frombuffer(program.read_page(page), np.float32)[:5] for page in (0, 1, 2, 3)]
    once = [1, 2, 3, 4, 0]
    twice = [2, 4, 6, 8, 0]
    assert [mark.tolist() for mark in marks] == [once, twice, [0] * 5, twice]


def test_a_gpu_moves_a_page_with_one_submission_and_makes_nothing(
    device: WgpuDevice, make_webgpu: Make
) -> None:
    bundle = with_codes(make_webgpu(), "webgpu")
    with device.load(bundle, load_symbols={"pages": PAGES}) as program:
        counters = program.counters
        before = replace(counters)
        program.copy_page(0, 1)
        assert (counters.submits, counters.readbacks) == (before.submits + 1, before.readbacks)
        program.write_page(0, bytes(PAGE_BYTES))
        assert (counters.submits, counters.readbacks) == (before.submits + 2, before.readbacks)
        program.read_page(0)
        assert (counters.submits, counters.readbacks) == (before.submits + 3, before.readbacks + 1)
        assert counters.buffers == before.buffers


def test_vulkan_moves_a_page_with_one_submission_and_makes_nothing(make_vulkan: Make) -> None:
    bundle = with_codes(make_vulkan(), "vulkan")
    with VulkanDevice().load(bundle, load_symbols={"pages": PAGES}, trust=True) as program:
        counters = program.counters
        before = replace(counters)
        program.copy_page(0, 1)
        assert (counters.submits, counters.readbacks) == (before.submits + 1, before.readbacks)
        # What is written goes along with what is asked for next.
        program.write_page(0, bytes(PAGE_BYTES))
        assert counters.submits == before.submits + 1
        program.read_page(0)
        assert (counters.submits, counters.readbacks) == (before.submits + 2, before.readbacks + 1)
        assert (counters.buffers, counters.allocations) == (before.buffers, before.allocations)


def test_a_gpu_needs_rows_that_4_bytes_divide() -> None:
    # Pages of the group that can be run have such rows, whatever its heads are.
    odd = Paging(PAGES, (PageRow("kv.0", 0, 256), PageRow("kv.1", 256, 6)))
    with pytest.raises(DeviceError, match=r"'kv\.1' has 6 bytes") as error:
        check_rows(odd)
    assert error.value.code == "device.buffer"


@pytest.mark.parametrize("kind", ["cpu", "webgpu", "vulkan"])
@pytest.mark.parametrize("case", cases("unsupported-states"), ids=what)
def test_state_that_cannot_be_run_is_refused_before_weights_are_read(
    case: Case, kind: str, request: pytest.FixtureRequest
) -> None:
    maker = {"cpu": "make", "webgpu": "make_webgpu", "vulkan": "make_vulkan"}[kind]
    bundle: Bundle = request.getfixturevalue(maker)()
    manifest = sample.read_manifest(bundle.path)
    manifest["model"] |= {"layers": 2, "kv_heads": 4, "head_dim": 16}
    groups = edited(case)["state_groups"]
    for program in manifest["programs"]:
        program["page_bytes"] = [256] * len(groups)
    sample.write_manifest(bundle.path, manifest | {"state_groups": groups})
    # No check of the weights' hash is reached.
    params = bundle.path / "params/cpu/00000.safetensors"
    params.write_bytes(bytes(params.stat().st_size))
    changed = Bundle.open(bundle.path)
    device = device_for_target(kind)
    with pytest.raises(UnsupportedError) as refused:
        device.load(changed, load_symbols={"pages": PAGES}, trust=True)
    assert refused.value.code == "unsupported.state"
    assert all(quoted in refused.value.message for quoted in case["quotes"])
    with pytest.raises(UnsupportedError) as refused:
        pool_pages(changed, changed.manifest.programs[0], 64, None)
    assert refused.value.code == "unsupported.state"
