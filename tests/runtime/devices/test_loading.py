"""What every device's `load` does: native code runs only where it is trusted, all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime import trust
from edgewise_runtime.devices import loading
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.errors import BundleError, DeviceError, EdgewiseError
from edgewise_runtime.format.bundle import Bundle, read_manifest
from edgewise_runtime.format.targets import TARGETS
from tests.runtime import sample
from tests.runtime.devices import tiny_webgpu
from tests.runtime.sample import Json

Make = Callable[..., Bundle]
Change = Callable[[Path, Json], object]

PAGES = {"pages": 4}
LIBRARY = "programs/cpu-f32-portable/kernels.so"


class Kernels:
    """A device that runs programs of a file for each kernel, and keeps what it was given."""

    name = "a device of this test"
    load = loading.load

    def __init__(self, target: str, memory: int | None = None, largest: int | None = None) -> None:
        self.target = target
        self.given: list[Checked] = []
        self._memory, self._largest = memory, largest

    def features(self) -> frozenset[str]:
        return frozenset()

    def available_memory(self) -> int | None:
        return self._memory

    def largest_buffer(self) -> int | None:
        return self._largest

    def bind(self, checked: Checked) -> Checked:
        self.given.append(checked)
        return checked


def native(folder: Path, target: str = "vulkan") -> Path:
    """A bundle whose program has a file for each kernel, for a target whose programs are native."""
    tiny_webgpu.write_bundle(folder, {name: {"source": name} for name in tiny_webgpu.KERNELS})
    for name, plan in tiny_webgpu.plans().items():
        path = folder / tiny_webgpu.HOME / f"plans/{name}.json"
        path.write_text(json.dumps(plan | {"target": target}))
    change(folder, lambda _, manifest: manifest["programs"][1].update(target=target))
    return folder


def change(folder: Path, edit: Change) -> None:
    """Change files and the manifest, and have the manifest list what is there then."""
    manifest = sample.read_manifest(folder)
    edit(folder, manifest)
    sample.write_manifest(folder, manifest | {"files": sample.list_files(folder)})


def sign(folder: Path, index: int) -> None:
    """Sign a program as `compile` does."""
    signed = trust.sign_programs(read_manifest(folder))[index]
    assert signed.signature is not None
    change(folder, lambda _, m: m["programs"][index].update(signature=signed.signature))


def refused(action: Callable[[], object]) -> str:
    with pytest.raises(EdgewiseError) as error:
        action()
    return error.value.code


def other_plan(folder: Path, manifest: Json) -> None:
    """A plan that is as valid as the one that was compiled."""
    path = folder / manifest["programs"][-1]["plans"]["decode"]
    plan = json.loads(path.read_text())
    scratch = {"name": "scratch.9", "role": "scratch", "dtype": "uint8", "shape": [8], "bytes": 8}
    plan["buffers"].append(scratch)
    path.write_text(json.dumps(plan))


def other_code(folder: Path, manifest: Json) -> None:
    program = manifest["programs"][-1]
    path = folder / (program["library"] or program["shaders"]["scale"])
    path.write_bytes(path.read_bytes() + b"\0")


def more_code(folder: Path, manifest: Json) -> None:
    (folder / "more.so").write_bytes(b"more code")
    manifest["programs"][-1]["shaders"]["more"] = "more.so"


def moved_code(folder: Path, manifest: Json) -> None:
    program = manifest["programs"][-1]
    code = folder / LIBRARY if program["library"] else folder / program["shaders"]["scale"]
    code.rename(folder / "moved.so")
    if program["library"]:
        program["library"] = "moved.so"
    else:
        program["shaders"]["scale"] = "moved.so"


def other_machine(folder: Path, manifest: Json) -> None:
    manifest["programs"][-1]["arithmetic"] = "f16"


def other_model(folder: Path, manifest: Json) -> None:
    """A number that no plan has, and that the host goes by."""
    manifest["model"]["context"] -= 1


def moved_tensor(folder: Path, manifest: Json) -> None:
    """Other bytes of the same file are the parameter."""
    manifest["layouts"]["cpu"]["tensors"]["w"]["offset"] = 0


def other_parameters(folder: Path, manifest: Json) -> None:
    path = folder / manifest["layouts"]["cpu"]["tensors"]["w"]["file"]
    path.write_bytes(bytes(path.stat().st_size))


def other_state(folder: Path, manifest: Json) -> None:
    manifest["programs"][-1]["decode_agrees"] = True


CHANGES = [
    other_plan,
    other_code,
    more_code,
    moved_code,
    other_machine,
    other_model,
    moved_tensor,
    other_parameters,
    other_state,
]


@pytest.mark.parametrize("edit", [None, *CHANGES])
def test_a_library_runs_only_as_this_user_compiled_it(make: Make, edit: Change | None) -> None:
    folder = make().path
    sign(folder, 0)
    if edit is None:
        with CpuDevice(2).load(Bundle.open(folder), load_symbols=PAGES) as program:
            program.run("spin")
        return
    change(folder, edit)
    bundle = Bundle.open(folder)
    assert refused(lambda: CpuDevice(2).load(bundle, load_symbols=PAGES)) == "trust.foreign"
    CpuDevice(2).load(bundle, load_symbols=PAGES, trust=True).close()


def test_what_another_target_adds_to_a_bundle_changes_no_program_of_it(make: Make) -> None:
    folder = make().path
    sign(folder, 0)

    def added(folder: Path, manifest: Json) -> None:
        manifest["state_groups"][0]["scales"] = ["kv_scale.0"]
        manifest["layouts"]["gpu"] = manifest["layouts"]["cpu"]
        manifest["programs"].append(manifest["programs"][0] | {"id": "other", "target": "webgpu"})
        manifest["name"] = "renamed"
        (folder / "proof.json").write_text("{}")

    change(folder, added)
    CpuDevice(2).load(Bundle.open(folder), "cpu-f32-portable", load_symbols=PAGES).close()


def swapped_kernels(folder: Path, manifest: Json) -> None:
    """Both files are what this user compiled, and each runs with the other's buffers."""
    shaders = manifest["programs"][-1]["shaders"]
    shaders["scale"], shaders["stamp"] = shaders["stamp"], shaders["scale"]


@pytest.mark.parametrize("target", [t.name for t in TARGETS.values() if t.native and not t.host])
@pytest.mark.parametrize("edit", [None, *CHANGES, swapped_kernels])
def test_native_kernels_run_only_as_this_user_compiled_them(
    tmp_path: Path, target: str, edit: Change | None
) -> None:
    folder, device = native(tmp_path / "native", target), Kernels(target)
    sign(folder, 1)
    if edit is not None:
        change(folder, edit)
    bundle = Bundle.open(folder)
    if edit is None:
        device.load(bundle, load_symbols=PAGES)
    else:
        assert refused(lambda: device.load(bundle, load_symbols=PAGES)) == "trust.foreign"
        # The device has heard nothing of it.
        assert device.given == []
        device.load(bundle, load_symbols=PAGES, trust=True)
    ((path, *_), *_) = [list(given.code) for given in device.given]
    assert device.given[0].code[path] == (folder / path).read_bytes()


def test_native_code_without_a_signature_or_with_another_is_not_loaded(make: Make) -> None:
    folder = make(library=b"never loaded, so never found to be no library").path

    def load(*, trusting: bool = False) -> object:
        bundle = Bundle.open(folder)
        return CpuDevice(2).load(bundle, load_symbols=PAGES, trust=trusting)

    assert refused(load) == "trust.unsigned"
    change(folder, lambda _, m: m["programs"][0].update(signature="0" * 64))
    assert refused(load) == "trust.foreign"
    assert refused(lambda: load(trusting=True)) == "device.library"


@pytest.mark.parametrize("edit", [None, *CHANGES])
def test_another_user_runs_what_who_compiled_it_vouches_for_and_nothing_else(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, edit: Change | None
) -> None:
    folder = make().path
    sign(folder, 0)
    vouched = trust.vouched(read_manifest(folder))
    assert len(vouched) == 1
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another user"))
    # Whoever has not compiled it cannot vouch for it.
    assert trust.vouched(read_manifest(folder)) == ()

    def load(trusted: trust.Trust) -> None:
        CpuDevice(2).load(Bundle.open(folder), load_symbols=PAGES, trust=trusted).close()

    assert refused(lambda: load(["0" * 64])) == "trust.foreign"
    load(vouched)
    if edit is not None:
        change(folder, edit)
        assert refused(lambda: load(vouched)) == "trust.foreign"


@pytest.mark.parametrize("given", ["0" * 64, ["0" * 63], [5], {"a": 1}, 1, None])
def test_what_is_no_list_of_digests_trusts_nobody(make: Make, given: Any) -> None:
    folder = make().path
    sign(folder, 0)
    bundle = Bundle.open(folder)
    found = refused(lambda: CpuDevice(2).load(bundle, load_symbols=PAGES, trust=given))
    assert found == "trust.digest"


def test_a_signature_is_for_one_program(tmp_path: Path) -> None:
    """Code compiled for one target is nothing else's."""
    folder = native(tmp_path / "native")
    sign(folder, 1)
    for name, plan in tiny_webgpu.plans().items():
        path = folder / tiny_webgpu.HOME / f"plans/{name}.json"
        path.write_text(json.dumps(plan | {"target": "cuda"}))
    change(folder, lambda _, manifest: manifest["programs"][1].update(target="cuda"))
    bundle = Bundle.open(folder)
    assert refused(lambda: Kernels("cuda").load(bundle, load_symbols=PAGES)) == "trust.foreign"


def test_data_is_loaded_without_a_signature(tmp_path: Path) -> None:
    folder = native(tmp_path / "data", "webgpu")
    device = Kernels("webgpu")
    device.load(Bundle.open(folder), load_symbols=PAGES)
    (given,) = device.given
    assert given.code == {path: (folder / path).read_bytes() for path in given.program.code}


@pytest.mark.parametrize("path", ["programs/webgpu/scale.wgsl", "programs/webgpu/stamp.wgsl"])
def test_code_swapped_after_the_bundle_was_opened_is_refused(tmp_path: Path, path: str) -> None:
    folder = native(tmp_path / "native")
    sign(folder, 1)
    bundle, device = Bundle.open(folder), Kernels("vulkan")
    data = bytearray((folder / path).read_bytes())
    data[0] ^= 1
    (folder / path).write_bytes(data)
    for trusting in (False, True):
        action = lambda: device.load(bundle, load_symbols=PAGES, trust=trusting)  # noqa: B023, E731
        assert refused(action) == "bundle.checksum"
    assert device.given == []


def test_a_plan_swapped_after_the_bundle_was_opened_is_refused(tmp_path: Path) -> None:
    folder = native(tmp_path / "native")
    sign(folder, 1)
    bundle = Bundle.open(folder)
    path = folder / tiny_webgpu.HOME / "plans/decode.json"
    path.write_text(path.read_text().replace("advance", "ADVANCE"))
    assert refused(lambda: Kernels("vulkan").load(bundle, load_symbols=PAGES)) == "bundle.checksum"


def test_a_kernel_without_a_file_is_refused(tmp_path: Path) -> None:
    folder = native(tmp_path / "native", "webgpu")

    def drop(folder: Path, manifest: Json) -> None:
        # With a library nobody looks for shaders before the program is loaded.
        manifest["programs"][1] |= {"library": LIBRARY, "shaders": {}}

    change(folder, drop)
    with pytest.raises(BundleError, match="no file for the kernel 'advance'") as error:
        Kernels("webgpu").load(Bundle.open(folder), load_symbols=PAGES)
    assert error.value.code == "bundle.shader"


@pytest.mark.parametrize("index", [0, 1])
def test_code_beyond_all_measure_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    bundle = Bundle.open(native(tmp_path / "native", "webgpu"))
    program = bundle.manifest.programs[index]
    most = max(bundle.manifest.files[path].bytes for path in program.code)
    target = TARGETS[program.target]
    smaller = {program.target: replace(target, largest_file=most - 1)}
    monkeypatch.setattr(loading, "TARGETS", smaller)
    kind = "library" if target.one_library else "shader"
    load = lambda: Kernels(program.target).load(bundle, load_symbols=PAGES, trust=True)  # noqa: E731
    assert refused(load) == f"bundle.{kind}"


def test_memory_is_checked_on_every_device(tmp_path: Path) -> None:
    bundle = Bundle.open(native(tmp_path / "data", "webgpu"))
    needed = sum(Kernels("webgpu").load(bundle, load_symbols=PAGES).sizes.values())
    Kernels("webgpu", memory=needed).load(bundle, load_symbols=PAGES)
    device = Kernels("webgpu", memory=needed - 1)
    assert refused(lambda: device.load(bundle, load_symbols=PAGES)) == "device.memory"
    largest = max(Kernels("webgpu").load(bundle, load_symbols=PAGES).sizes.values())
    Kernels("webgpu", largest=largest).load(bundle, load_symbols=PAGES)
    device = Kernels("webgpu", largest=largest - 1)
    with pytest.raises(DeviceError, match=rf"allows {largest - 1:,}\.") as error:
        device.load(bundle, load_symbols=PAGES)
    assert error.value.code == "device.memory"


def test_parameters_are_told_once_they_proved_undamaged(tmp_path: Path) -> None:
    folder = native(tmp_path / "data", "webgpu")
    checked = Kernels("webgpu").load(Bundle.open(folder), load_symbols=PAGES)
    for tensors, files in checked.params():
        assert [*tensors] == ["w"]
        path = folder / tensors["w"].file
        assert Path(files[tensors["w"].file].name).samefile(path)
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert refused(lambda: next(checked.params())) == "bundle.checksum"
