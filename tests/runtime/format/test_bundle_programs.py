"""Which program of a bundle a machine gets, and what an error says where none fits."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle, BundleManifest, choose_program
from tests.runtime import sample

PARAMS = "params/cpu/00000.safetensors"

PROGRAMS = {
    "vnni": sample.program("vnni", ["avx2", "avx512vnni"], arithmetic="w4a8"),
    "avx2": sample.program("avx2", ["avx2"], arithmetic="w4a8"),
    "portable": sample.program("portable", [], arithmetic="w4a8"),
    "float": sample.program("float", ["avx2", "fma", "f16c"]),
}


def with_programs(names: list[str]) -> BundleManifest:
    value = sample.manifest() | {"programs": [copy.deepcopy(PROGRAMS[name]) for name in names]}
    empty = {"bytes": 0, "sha256": "0" * 64}
    value["files"] = {PARAMS: {"bytes": 128, "sha256": "0" * 64}}
    for program in value["programs"]:
        value["files"] |= dict.fromkeys([program["library"], *program["plans"].values()], empty)
    return BundleManifest.from_json(value)


@pytest.mark.parametrize(
    ("names", "features", "arithmetic", "best"),
    [
        (["portable", "avx2", "vnni"], {"avx2", "avx512vnni"}, None, "vnni"),
        (["vnni", "avx2", "portable"], {"avx2"}, None, "avx2"),
        (["vnni", "avx2", "portable"], set(), None, "portable"),
        (["vnni", "avx2", "float"], {"avx2", "fma", "f16c"}, None, "avx2"),
        (["vnni", "float"], {"avx2", "fma", "f16c"}, None, "float"),
        (["avx2", "float"], {"avx2", "fma", "f16c"}, "f32", "float"),
    ],
)
def test_the_best_program_that_fits_is_chosen(
    names: list[str], features: set[str], arithmetic: str | None, best: str
) -> None:
    bundle = Bundle(Path(), with_programs(names))
    assert choose_program(bundle, frozenset(features), arithmetic, target="cpu").id == best


def test_an_error_says_what_each_program_lacks() -> None:
    bundle = Bundle(Path(), with_programs(["vnni", "float"]))
    with pytest.raises(DeviceError, match="vnni needs avx512vnni; float needs fma, f16c") as error:
        choose_program(bundle, frozenset({"avx2"}), target="cpu")
    assert error.value.code == "device.no_program"
    with pytest.raises(DeviceError, match="on webgpu here: the bundle has none"):
        choose_program(bundle, frozenset({"avx2"}), target="webgpu")
    with pytest.raises(DeviceError, match="in bf16") as error:
        choose_program(bundle, frozenset({"avx2"}), "bf16", target="cpu")
    assert "vnni, float" in error.value.remedy


def test_the_architecture_is_a_need_like_any_other() -> None:
    value = copy.deepcopy(PROGRAMS["avx2"])
    value["needs"]["arch"] = "x86_64"
    manifest = sample.manifest() | {"programs": [value]}
    files = [value["library"], *value["plans"].values()]
    manifest["files"] = {key: {"bytes": 0, "sha256": "0" * 64} for key in files}
    manifest["files"][PARAMS] = {"bytes": 128, "sha256": "0" * 64}
    bundle = Bundle(Path(), BundleManifest.from_json(manifest))
    assert choose_program(bundle, frozenset({"x86_64", "avx2"}), target="cpu").id == "avx2"
    with pytest.raises(DeviceError, match="needs x86_64"):
        choose_program(bundle, frozenset({"aarch64", "avx2"}), target="cpu")
