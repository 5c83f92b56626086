"""The wheel holds all three packages, and their files, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
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
    (built,) = build("wheel", ROOT, tmp_path_factory.mktemp("wheel")).glob("*.whl")
    return ZipFile(built)


def build(what: str, root: Path, out: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", what, "-d", str(out)],
        cwd=root,
        check=True,
        capture_output=True,
    )
    return out


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


def test_the_built_chat_app_is_packed_although_git_ignores_it(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", ".gitignore"):
        shutil.copy(ROOT / name, root)
    for package, folder in PACKAGES.items():
        (root / folder.name / package).mkdir(parents=True)
        shutil.copy(folder / package / "py.typed", root / folder.name / package)
    page = "edgewise/server/static/chat/index.html"
    (root / "sdk" / page).parent.mkdir(parents=True)
    (root / "sdk" / page).touch()
    (wheel,) = build("wheel", root, tmp_path).glob("*.whl")
    assert page in ZipFile(wheel).namelist()
    (sources,) = build("sdist", root, tmp_path).glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        assert any(name.endswith(f"sdk/{page}") for name in archive.getnames())


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
