"""Which device a program or a bundle means, and how many pages a program gets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine
from edgewise.devices import device_for, load_program, target_for
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import DeviceError, InputError
from edgewise_runtime.format.bundle import Bundle
from tests.runtime import sample
from tests.runtime.devices import tiny_webgpu

PAGES_FOR_ALL = 128  # 8 sequences of 256 tokens, 16 a page
PAGES_FOR_ONE = 16


@pytest.fixture
def both(tmp_path: Path) -> Bundle:
    """A bundle for the CPU and for WebGPU, with shaders that nobody runs."""
    folder = tmp_path / "both"
    tiny_webgpu.write_bundle(folder, {name: {"source": "none"} for name in tiny_webgpu.KERNELS})
    return Bundle.open(folder)


def only(bundle: Bundle, target: str) -> Bundle:
    """The bundle with its programs for a target alone."""
    manifest = bundle.manifest.to_json()
    manifest["programs"] = [p for p in manifest["programs"] if p["target"] == target]
    sample.write_manifest(bundle.path, manifest)
    return Bundle.open(bundle.path)


def test_a_bundle_runs_on_the_cpu_unless_it_is_only_for_gpus(both: Bundle) -> None:
    assert device_for(both).target == "cpu"
    assert device_for(only(both, "webgpu")).target == "webgpu"


def test_a_program_decides_where_no_device_is_named(both: Bundle) -> None:
    assert device_for(both, None, tiny_webgpu.ID).target == "webgpu"
    assert device_for(both, None, "cpu-f32-portable").target == "cpu"
    assert device_for(both, "cpu", tiny_webgpu.ID).target == "cpu"


def test_a_device_is_itself(both: Bundle) -> None:
    mine = CpuDevice(1)
    assert device_for(both, mine, tiny_webgpu.ID) is mine


def test_threads_are_those_of_the_cpu(both: Bundle) -> None:
    device = device_for(both, "cpu", threads=3)
    assert isinstance(device, CpuDevice)
    assert device.threads == 3


@pytest.mark.parametrize(
    ("device", "program", "code"),
    [
        ("wgpu", None, "device.no_program"),
        ("wgpu", "cpu", "device.no_program"),
        ("wgpu:99", None, "device.adapter"),
    ],
)
def test_an_engine_says_what_cannot_run_where(
    bundle: Path, device: str, program: str | None, code: str
) -> None:
    wanted = Bundle.open(bundle).manifest.programs[0].id if program else None
    with pytest.raises(DeviceError) as error:
        Engine(bundle, device=device, program=wanted)
    assert error.value.code == code


def test_a_bundle_without_a_program_for_gpus_says_how_to_add_one(bundle: Path) -> None:
    with pytest.raises(DeviceError, match="has no webgpu program") as error:
        Engine(bundle, device="wgpu")
    assert f"--target webgpu -o {bundle}" in error.value.remedy


def test_an_engine_runs_the_program_it_is_asked_for(bundle: Path) -> None:
    program = Bundle.open(bundle).manifest.programs[0].id
    with Engine(bundle, program=program) as engine:
        assert engine.program == program


class Tight(CpuDevice):
    """A device with room for so many pages, which one learns only by trying."""

    def __init__(self, room: int, limit: int | None = None) -> None:
        super().__init__()
        self.room = room
        self.limit = limit
        self.tried: list[int] = []

    def available_memory(self) -> int | None:
        return None

    def largest_buffer(self) -> int | None:
        return self.limit

    def load(self, *args: Any, load_symbols: Mapping[str, int], **options: Any) -> Any:
        self.tried.append(load_symbols["pages"])
        if load_symbols["pages"] > self.room:
            raise DeviceError("no room", code="device.memory")
        return super().load(*args, load_symbols=load_symbols, **options)


def pages_on(bundle: Path, device: Tight, context: int | None = 256) -> int:
    loaded: LoadedProgram
    loaded, pages = load_program(Bundle.open(bundle), device, None, context=context)
    with loaded:
        assert loaded.read("kv.0").shape[0] == pages
    return pages


@pytest.mark.parametrize(
    ("room", "tried"),
    [(1000, [128]), (128, [128]), (127, [128, 64]), (40, [128, 64, 32]), (16, [128, 64, 32, 16])],
)
def test_a_device_that_does_not_tell_gets_fewer_pages_until_they_fit(
    bundle: Path, room: int, tried: list[int]
) -> None:
    device = Tight(room)
    assert pages_on(bundle, device) == tried[-1]
    assert device.tried == tried


def test_one_sequence_must_fit(bundle: Path) -> None:
    device = Tight(PAGES_FOR_ONE - 1)
    with pytest.raises(DeviceError, match="no room"):
        pages_on(bundle, device)
    assert device.tried == [128, 64, 32, 16]


def test_where_no_context_was_asked_for_an_engine_has_what_there_is_room_for(
    long_bundle: Path,
) -> None:
    device = Tight(100)
    with pytest.warns(UserWarning, match="room for 1,024 tokens of context; .* allows 131,072"):
        engine = Engine(long_bundle, device=device)
    with engine:
        assert device.tried == [65536 >> turn for turn in range(11)]
        assert engine.context == 1024
        with pytest.raises(InputError, match="1,024"):
            engine.generate([5] * 1100)
        assert engine.generate([5] * 1000, max_tokens=3, ignore_eos=True).token_ids
    with pytest.raises(DeviceError, match="no room"):
        Engine(long_bundle, device=Tight(100), context=2048)


def test_a_layers_pages_stay_within_the_largest_buffer(bundle: Path) -> None:
    page = 2 * 2 * 16 * 32 * 2
    assert pages_on(bundle, Tight(1000, PAGES_FOR_ALL * page)) == PAGES_FOR_ALL
    assert pages_on(bundle, Tight(1000, PAGES_FOR_ALL * page - 1)) == PAGES_FOR_ALL - 1


@pytest.mark.parametrize(
    ("program", "target"),
    [(None, None), ("webgpu-f16", "webgpu"), ("cpu-w4a8-avx2", "cpu"), ("abacus-f32", None)],
)
def test_a_checkpoint_is_compiled_for_its_device_or_its_program(
    program: str | None, target: str | None
) -> None:
    assert target_for(None, program) == target
    assert target_for(CpuDevice(1), program) == "cpu"
