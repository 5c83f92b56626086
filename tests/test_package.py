"""What the wheels of edgewise and edgewise-light hold and ask for, and nothing else."""

from __future__ import annotations

import re
import tarfile
import tomllib
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from edgewise_runtime import installed
from edgewise_runtime.devices.cpu import tvm_library
from tests.wheels import PACKAGES, ROOT, STATIC, build, copy_sources, put_app

PAGE = "edgewise/server/static/chat/index.html"
CARRIED = "edgewise_runtime/devices/cpu/lib/"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """These sources with a chat app."""
    root = copy_sources(tmp_path_factory.mktemp("sources"))
    put_app(root)
    return root


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel of edgewise, built by the back end that pip would call."""
    return ZipFile(build("wheel", sources, tmp_path_factory.mktemp("wheel"))[0])


@pytest.fixture(scope="module")
def light(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel of edgewise-light."""
    return ZipFile(build("wheel", sources / "light", tmp_path_factory.mktemp("light"))[0])


def metadata(wheel: ZipFile, file: str = "METADATA") -> Message:
    (name,) = [n for n in wheel.namelist() if n.endswith(f".dist-info/{file}")]
    return message_from_string(wheel.read(name).decode())


def required(wheel: ZipFile) -> list[Requirement]:
    return [Requirement(text) for text in metadata(wheel).get_all("Requires-Dist", [])]


def plain(requirements: list[Requirement]) -> set[str]:
    """Those that an installation without extras asks for."""
    return {str(item) for item in requirements if item.marker is None}


def of_extra(requirements: list[Requirement], extra: str) -> set[str]:
    """Names that only an extra asks for."""
    of = [item for item in requirements if item.marker and not item.marker.evaluate({"extra": ""})]
    return {item.name for item in of if item.marker and item.marker.evaluate({"extra": extra})}


def packed(wheel: ZipFile) -> dict[str, bytes]:
    """The files of a wheel's packages."""
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    return {name: wheel.read(name) for name in names}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_every_source_of(package: str, wheel: ZipFile, sources: Path) -> None:
    root = sources / PACKAGES[package].name
    files = {
        path.relative_to(root).as_posix() for path in (root / package).rglob("*") if path.is_file()
    }
    assert f"{package}/py.typed" in files
    assert {name for name in wheel.namelist() if name.startswith(f"{package}/")} == files


def test_the_wheel_holds_nothing_else(wheel: ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_carries_its_licence_and_the_command(wheel: ZipFile, light: ZipFile) -> None:
    for of in (wheel, light):
        names = of.namelist()
        for text in ("LICENSE", "NOTICE"):
            assert any(name.endswith(f".dist-info/licenses/{text}") for name in names)
        (entry,) = [name for name in names if name.endswith("entry_points.txt")]
        assert "edgewise = edgewise.cli.main:main" in of.read(entry).decode()


def test_the_compiler_is_pinned_exactly(wheel: ZipFile) -> None:
    assert {"apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post1"} <= plain(required(wheel))


def test_the_built_chat_app_is_packed_although_git_ignores_it(
    wheel: ZipFile, sources: Path, tmp_path: Path
) -> None:
    assert f"/{STATIC.as_posix()}/" in (sources / ".gitignore").read_text().splitlines()
    assert PAGE in wheel.namelist()
    with tarfile.open(build("sdist", sources, tmp_path)[0]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert f"sdk/{PAGE}" in names
    assert "hatch_build.py" in names


def test_the_light_wheel_holds_the_same_and_tvms_runtime_with_its_licence(
    wheel: ZipFile, light: ZipFile
) -> None:
    both = packed(light)
    carried = {name: both.pop(name) for name in list(both) if name.startswith(CARRIED)}
    assert both == packed(wheel)
    library = tvm_library.runtime_path()
    assert carried.pop(CARRIED + library.name) == library.read_bytes()
    assert {f"{CARRIED}tvm/LICENSE", f"{CARRIED}tvm/NOTICE"} <= carried.keys()
    assert all(name.startswith(f"{CARRIED}tvm/") for name in carried)
    place = tvm_library.CARRIED.relative_to(PACKAGES["edgewise_runtime"]).as_posix()
    assert f"{place}/" == CARRIED


def test_the_light_wheel_asks_for_neither_tvm_nor_what_makes_certificates(
    wheel: ZipFile, light: ZipFile
) -> None:
    whole, less = required(wheel), required(light)
    left_out = {installed.TVM.requirement, str(Requirement(installed.CRYPTOGRAPHY.requirement))}
    assert plain(less) == plain(whole) - left_out
    assert of_extra(less, "compile") == {"apache-tvm"}
    assert of_extra(less, "tls") == {"cryptography"}
    for gpus in ("vulkan", "wgpu"):
        assert of_extra(less, gpus) == of_extra(whole, gpus) == {gpus}
    assert f"{installed.TVM.name}{installed.TVM.versions}" in (ROOT / "light/README.md").read_text()


def test_the_light_wheel_is_for_the_systems_of_its_library(light: ZipFile) -> None:
    _, version, _, tags = parse_wheel_filename(Path(light.filename or "").name)
    assert str(version) == installed.VERSION
    assert {(tag.interpreter, tag.abi) for tag in tags} == {("py3", "none")}
    assert "any" not in {tag.platform for tag in tags}
    assert metadata(light, "WHEEL")["Root-Is-Purelib"] == "false"


@pytest.mark.parametrize("field", ["Version", "License-Expression", "Requires-Python", "Keywords"])
def test_both_wheels_tell_the_same(field: str, wheel: ZipFile, light: ZipFile) -> None:
    assert metadata(light)[field] == metadata(wheel)[field] is not None


def test_what_the_light_wheel_is_built_with_is_what_edgewise_asks_for(wheel: ZipFile) -> None:
    built_with = tomllib.loads((ROOT / "light/pyproject.toml").read_text())["build-system"]
    tvm = {text for text in built_with["requires"] if text.startswith("apache-")}
    assert tvm == {text for text in plain(required(wheel)) if text.startswith("apache-")}


@pytest.mark.parametrize(
    "package",
    [
        installed.TVM,
        installed.FFI,
        installed.WGPU,
        installed.VULKAN,
        installed.CRYPTOGRAPHY,
        installed.RAY,
        installed.ZIG,
        installed.NVRTC,
        installed.NVFATBIN,
    ],
)
def test_what_errors_say_to_install_is_what_the_wheel_asks_for(
    package: installed.Package, wheel: ZipFile
) -> None:
    assert Requirement(package.requirement) in {
        Requirement(f"{item.name}[{','.join(item.extras)}]{item.specifier}")
        for item in required(wheel)
    }


def test_no_error_says_to_install_what_pip_does_not_find() -> None:
    """edgewise itself may have come from a clone: what pip finds are the packages it asks for."""
    known = {"torch", "transformers", "llama-cpp-python", "ziglang"}
    named = {
        match[1]
        for package, folder in PACKAGES.items()
        for path in (folder / package).rglob("*.py")
        for match in re.finditer(r"pip install ([\w\[\]-]+)", path.read_text())
    }
    assert named <= known


def requirements(extra: str) -> set[str]:
    """What installing edgewise with an extra asks for, extras of edgewise itself followed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = set(project["dependencies"])
    for item in project["optional-dependencies"][extra]:
        own = re.fullmatch(r"edgewise\[(\w+)\]", item)
        wanted |= requirements(own[1]) if own else {item}
    return wanted


def test_the_lock_satisfies_what_the_distribution_requires() -> None:
    locked = {
        Requirement(line).name.lower().replace("_", "-"): Requirement(line).specifier
        for line in (ROOT / "requirements/dev.lock").read_text().splitlines()
        if line and not line.startswith("#")
    }
    for item in map(Requirement, requirements("dev")):
        (pin,) = locked[item.name.lower()]
        assert pin.operator == "=="
        assert item.specifier.contains(pin.version), item


def test_running_on_a_gpu_is_an_extra(wheel: ZipFile) -> None:
    (wgpu,) = [
        item for item in required(wheel) if item.name == "wgpu" and "wgpu" in str(item.marker)
    ]
    assert wgpu.specifier.contains("0.32.0")
    assert not wgpu.specifier.contains("0.33.0")
