"""The wheel holds all three packages, and their files, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "edgewise_runtime": ROOT / "runtime",
    "edgewise_compiler": ROOT / "compiler",
    "edgewise": ROOT / "sdk",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel, built by the back end that pip would call."""
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return ZipFile(built)


def metadata(wheel: ZipFile) -> Message:
    (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
    return message_from_string(wheel.read(name).decode())


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_every_source_of(package: str, wheel: ZipFile) -> None:
    root = PACKAGES[package]
    sources = {
        path.relative_to(root).as_posix()
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if name.startswith(f"{package}/")}
    assert f"{package}/py.typed" in packed
    assert packed == sources


def test_the_wheel_holds_nothing_else(wheel: ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_carries_its_licence_and_the_command(wheel: ZipFile) -> None:
    names = wheel.namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    (entry,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "edgewise = edgewise.cli.main:main" in wheel.read(entry).decode()


def test_the_compiler_is_pinned_exactly(wheel: ZipFile) -> None:
    required = metadata(wheel).get_all("Requires-Dist", [])
    assert "apache-tvm==0.27.0.post1" in required
    assert "apache-tvm-ffi==0.1.14.post1" in required


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
    required = [Requirement(text) for text in metadata(wheel).get_all("Requires-Dist", [])]
    (wgpu,) = [item for item in required if item.name == "wgpu" and "wgpu" in str(item.marker)]
    assert wgpu.specifier.contains("0.32.0")
    assert not wgpu.specifier.contains("0.33.0")
