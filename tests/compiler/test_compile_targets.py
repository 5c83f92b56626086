"""Several targets in one bundle: added to, compiled again, never mixed up."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from edgewise_compiler.compile import compile_model
from edgewise_compiler.targets.vulkan import variants as vulkan
from edgewise_compiler.targets.webgpu.variants import variants_for
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.errors import BundleError, EdgewiseError, StorageError, TrustError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.seal import seal, unseal
from edgewise_runtime.format.targets import is_native
from edgewise_runtime.trust import verify_program

CASE = "llama-mha"
WEBGPU = [variant.name for variant in variants_for("q4")]
VULKAN = [variant.name for variant in vulkan.variants_for("q4")]
# Those of the bundles that other tests load: most kernels are compiled once for all of them.
BOUNDS = {"max_batch": 8, "prefill_chunk": 128, "quant": "q4"}
Checkpoints = Callable[[str], Path]


def programs(bundle: Path) -> list[str]:
    opened = Bundle.open(bundle)
    opened.check()
    return [program.id for program in opened.manifest.programs]


@pytest.fixture(scope="module")
def both(checkpoints: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("both") / "bundle"
    return compile_model(checkpoints(CASE), out, targets=("webgpu", "cpu"), **BOUNDS)


def test_a_bundle_holds_the_programs_of_every_target_asked_for(both: Path) -> None:
    found = programs(both)
    assert found[:-1] == WEBGPU
    assert found[-1].startswith("cpu-")
    assert set(Bundle.open(both).manifest.layouts) == {"cpu", "gpu"}


@pytest.mark.landing
def test_a_second_target_reads_no_matrix_again(
    checkpoints: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[str, int, int | None]] = []
    read = SafetensorsReader.read

    def recording(
        reader: SafetensorsReader, name: str, start: int = 0, stop: int | None = None
    ) -> NDArray[np.float32]:
        reads.append((name, start, stop))
        return read(reader, name, start, stop)

    monkeypatch.setattr(SafetensorsReader, "read", recording)
    options: dict[str, Any] = {"cpu": "portable", **BOUNDS}
    compile_model(checkpoints(CASE), tmp_path / "one", targets=("cpu",), **options)
    alone = reads.copy()
    reads.clear()
    phases: dict[str, None] = {}
    compile_model(
        checkpoints(CASE),
        tmp_path / "two",
        targets=("cpu", "webgpu"),
        progress=lambda phase, done, total: phases.setdefault(phase),
        **options,
    )
    assert reads[: len(alone)] == alone
    # What GPUs must answer is computed from packed matrices, and from norms as they were.
    assert all(name.endswith("norm.weight") for name, _, _ in reads[len(alone) :])
    assert [phase for phase in phases if phase.startswith("Packing")] == ["Packing weights"]


def test_a_target_is_added_to_a_bundle_that_is_there(
    both: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    out = compile_model(checkpoints(CASE), tmp_path / "bundle", **BOUNDS)
    before = Bundle.open(out).manifest
    compile_model(checkpoints(CASE), out, targets=("webgpu",), **BOUNDS)
    after = Bundle.open(out).manifest
    assert [p.id for p in after.programs] == [*WEBGPU, before.programs[0].id]
    assert after.files.items() >= before.files.items()
    # It was there before, and is still what this user compiled.
    assert after.programs[-1] == before.programs[0]
    verify_program(after, after.programs[-1])
    shaders = {name: entry for name, entry in after.files.items() if name.endswith(".wgsl")}
    assert shaders.items() <= Bundle.open(both).manifest.files.items()
    assert programs(out) == [p.id for p in after.programs]


@pytest.mark.landing
def test_programs_of_two_gpu_languages_share_what_is_packed(
    both: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(both, tmp_path / "bundle"))
    before = Bundle.open(out).manifest
    compile_model(checkpoints(CASE), out, targets=("vulkan",), **BOUNDS)
    after = Bundle.open(out).manifest
    assert [p.id for p in after.programs if p.target == "vulkan"] == VULKAN
    assert after.layouts == before.layouts
    added = after.files.keys() - before.files.keys()
    assert {name.split("/")[1].partition("-")[0] for name in added} == {"vulkan"}
    twins = {p.id.removeprefix("webgpu-"): p for p in after.programs if p.target == "webgpu"}
    for program in (p for p in after.programs if p.target == "vulkan"):
        verify_program(after, program)
        twin = twins[program.id.removeprefix("vulkan-")]
        assert (program.layout, program.needs) == ("gpu", twin.needs)
        assert (program.arithmetic, program.state_dtype) == (twin.arithmetic, twin.state_dtype)
        assert program.shaders.keys() == twin.shaders.keys()
        assert {*program.shaders.values()} <= added


@pytest.mark.landing
def test_a_target_compiled_again_replaces_its_own_programs_only(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    out = tmp_path / "bundle"
    compile_model(checkpoints(CASE), out, targets=("webgpu", "cpu"), cpu="portable", **BOUNDS)
    compile_model(checkpoints(CASE), out, cpu="portable", **BOUNDS)
    assert programs(out) == ["cpu-w4a8-portable", *WEBGPU]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quant": "q8"}, "quant is q4 there and q8 here"),
        ({"context": 64}, "context is 256 there and 64 here"),
        ({"max_batch": 4}, "max_batch is 8 there and 4 here"),
    ],
)
def test_programs_of_other_bounds_are_not_added(
    options: dict[str, object], said: str, both: Path, checkpoints: Checkpoints
) -> None:
    before = (both / "bundle.json").read_bytes()
    with pytest.raises(StorageError, match=said) as caught:
        compile_model(checkpoints(CASE), both, **{**BOUNDS, **options})  # type: ignore[arg-type]
    assert caught.value.code == "storage.other_bundle"
    assert "--target" in caught.value.remedy
    assert (both / "bundle.json").read_bytes() == before


def test_programs_of_another_checkpoint_are_not_added(both: Path, checkpoints: Checkpoints) -> None:
    with pytest.raises(StorageError, match="checkpoint"):
        compile_model(checkpoints("llama-gqa2-tied-linear"), both, **BOUNDS)


def test_programs_of_a_checkpoint_with_one_other_row_are_not_added(
    both: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    changed = Path(shutil.copytree(checkpoints(CASE), tmp_path / CASE))
    tensors = load_file(changed / "model.safetensors")
    tensors["model.embed_tokens.weight"][1] = 0
    save_file(tensors, changed / "model.safetensors")
    with pytest.raises(StorageError, match="checkpoint"):
        compile_model(changed, both, **BOUNDS)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # Files of a bundle may be linked to from others.
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "bundle.checksum": flipped,
    "bundle.size": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "bundle.missing": Path.unlink,
}


@pytest.fixture
def other_target(both: Path, tmp_path: Path) -> Path:
    """A bundle with programs for WebGPU and the CPU, to be damaged."""
    return Path(shutil.copytree(both, tmp_path / "bundle"))


@pytest.mark.parametrize("code", DAMAGES)
@pytest.mark.parametrize("file", ["params/gpu/*.safetensors", "plans/decode.json", "*.wgsl"])
def test_damaged_files_of_programs_that_stay_are_not_listed_anew(
    other_target: Path, checkpoints: Checkpoints, file: str, code: str
) -> None:
    damaged = next(path for path in other_target.rglob(file) if "cpu-" not in str(path))
    DAMAGES[code](damaged)
    before = (other_target / "bundle.json").read_bytes()
    with pytest.raises(BundleError, match=damaged.name) as caught:
        compile_model(checkpoints(CASE), other_target, **BOUNDS)
    assert caught.value.code == code
    assert "--target webgpu,cpu" in caught.value.remedy
    assert (other_target / "bundle.json").read_bytes() == before


@pytest.mark.parametrize("code", ["bundle.checksum", "bundle.json"])
def test_a_bundle_that_does_not_say_whose_programs_it_has_is_not_replaced(
    other_target: Path, checkpoints: Checkpoints, code: str
) -> None:
    manifest = other_target / "bundle.json"
    if code == "bundle.json":
        manifest.write_bytes(b"{")
    else:
        flipped(manifest)
    before = manifest.read_bytes()
    with pytest.raises(BundleError) as caught:
        compile_model(checkpoints(CASE), other_target, **BOUNDS)
    assert caught.value.code == code
    assert f"rm -r {other_target}" in caught.value.remedy
    assert manifest.read_bytes() == before


def test_files_that_are_damaged_while_others_are_compiled_are_not_listed_anew(
    other_target: Path, checkpoints: Checkpoints
) -> None:
    before = (other_target / "bundle.json").read_bytes()

    def damage(phase: str, done: int, total: int) -> None:
        if phase == "Packing weights" and done == total:
            flipped(next(other_target.glob("params/gpu/*.safetensors")))

    with pytest.raises(BundleError, match="changed while") as caught:
        compile_model(checkpoints(CASE), other_target, progress=damage, **BOUNDS)
    assert caught.value.code == "bundle.checksum"
    assert (other_target / "bundle.json").read_bytes() == before


def test_damaged_files_of_programs_that_are_made_again_do_not_matter(
    other_target: Path, checkpoints: Checkpoints
) -> None:
    flipped(next(other_target.glob("params/cpu/*.safetensors")))
    (other_target / "programs" / programs_of(other_target, "cpu") / "kernels.so").unlink()
    compile_model(checkpoints(CASE), other_target, **BOUNDS)
    assert len(programs(other_target)) == len(WEBGPU) + 1


def programs_of(bundle: Path, target: str) -> str:
    (name,) = {path.name for path in (bundle / "programs").glob(f"{target}-*")}
    return name


@pytest.mark.landing
def test_programs_with_codes_and_with_floats_share_a_bundle(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    out = compile_model(checkpoints(CASE), tmp_path / "bundle", **BOUNDS, kv="int8")
    compile_model(checkpoints(CASE), out, targets=("webgpu",), **BOUNDS)
    *floats, codes = Bundle.open(out).manifest.programs
    assert programs(out) == [*WEBGPU, codes.id]
    assert codes.id.endswith("-kv8")
    assert codes.state_dtype == "int8"
    assert {p.state_dtype for p in floats} == {"float16"}
    (group,) = Bundle.open(out).manifest.state_groups
    assert group.scales == ("kv_scale.0", "kv_scale.1")
    compile_model(checkpoints(CASE), out, **BOUNDS)
    (group,) = Bundle.open(out).manifest.state_groups
    assert group.scales == ()


@pytest.mark.landing
def test_every_program_can_have_pages_of_codes(checkpoints: Checkpoints, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    compile_model(checkpoints(CASE), out, targets=("webgpu", "cpu"), **BOUNDS, kv="int8")
    assert programs(out)[:-1] == [f"{name}-kv8" for name in WEBGPU]
    assert {p.state_dtype for p in Bundle.open(out).manifest.programs} == {"int8"}


def test_unknown_pages_are_refused(checkpoints: Checkpoints, tmp_path: Path) -> None:
    with pytest.raises(EdgewiseError, match="fp8") as caught:
        compile_model(checkpoints(CASE), tmp_path / "bundle", kv="fp8")
    assert caught.value.code == "unsupported.kv"
    assert "int8" in caught.value.remedy


def test_no_target_is_refused(checkpoints: Checkpoints, tmp_path: Path) -> None:
    with pytest.raises(EdgewiseError) as caught:
        compile_model(checkpoints(CASE), tmp_path / "bundle", targets=())
    assert caught.value.code == "input.target"


def test_native_programs_are_signed_and_no_others(both: Path) -> None:
    manifest = Bundle.open(both).manifest
    for program in manifest.programs:
        assert (program.signature is not None) == is_native(program.target)
        verify_program(manifest, program)


def refused(bundle: Path) -> str:
    """Why the bundle's program for the CPU would not be loaded."""
    manifest = Bundle.open(bundle).manifest
    (program,) = [p for p in manifest.programs if p.target == "cpu"]
    with pytest.raises(TrustError) as error:
        verify_program(manifest, program)
    return error.value.code


def test_adding_to_a_bundle_of_someone_else_vouches_for_nothing_in_it(
    checkpoints: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as theirs:
        theirs.setenv("XDG_DATA_HOME", str(tmp_path / "theirs"))
        out = compile_model(checkpoints(CASE), tmp_path / "bundle", **BOUNDS)
    compile_model(checkpoints(CASE), out, targets=("webgpu",), **BOUNDS)
    assert refused(out) == "trust.foreign"


def test_a_file_of_someone_else_in_the_place_of_a_library_is_not_signed(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    out = tmp_path / "bundle"
    compile_model(checkpoints(CASE), out, targets=("webgpu",), **BOUNDS)
    library, code = "programs/cpu-w4a8-portable/kernels.so", b"someone else's"
    (out / library).parent.mkdir()
    (out / library).write_bytes(code)
    manifest = unseal((out / "bundle.json").read_bytes())
    manifest["programs"][0]["shaders"]["kernel"] = library
    sha256 = hashlib.sha256(code).hexdigest()
    manifest["files"][library] = {"bytes": len(code), "sha256": sha256}
    (out / "bundle.json").write_bytes(seal(manifest))
    compile_model(checkpoints(CASE), out, cpu="portable", **BOUNDS)
    assert refused(out) == "trust.foreign"
