"""The tiny programs compiled for real, in processes of their own: this one never imports tvm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise_runtime.devices.cpu.device import CpuDevice, CpuProgram
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from tests.runtime import sample
from tests.runtime.devices import tiny_vulkan, tiny_webgpu
from tests.runtime.sample import Json

Change = Callable[[Json], object]
Make = Callable[..., Bundle]


ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The tiny program's kernels.so."""
    script = Path(__file__).with_name("tiny_kernels.py")
    path = tmp_path_factory.mktemp("tiny") / "kernels.so"
    subprocess.run([sys.executable, str(script), str(path)], check=True, timeout=120)
    return path.read_bytes()


@pytest.fixture
def make(tmp_path: Path, library: bytes) -> Make:
    """Writes and opens a tiny bundle, its manifest changed before it is written again."""

    def make_bundle(change: Change = lambda manifest: None, *, library: bytes = library) -> Bundle:
        folder = tmp_path / f"tiny{len(list(tmp_path.iterdir()))}"
        manifest = sample.write_bundle(folder, library)
        change(manifest)
        sample.write_manifest(folder, manifest)
        return Bundle.open(folder)

    return make_bundle


@pytest.fixture
def program(make: Make) -> Iterator[CpuProgram]:
    """The tiny program loaded with 4 pages."""
    with CpuDevice(2).load(make(), load_symbols={"pages": 4}, trust=True) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def shaders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """The tiny WebGPU program's shaders: ``source`` and ``entry`` by kernel."""
    script = Path(__file__).with_name("tiny_shaders.py")
    path = tmp_path_factory.mktemp("tiny") / "shaders.json"
    folders = os.pathsep.join(str(ROOT / name) for name in ("runtime", "compiler"))
    environment = {**os.environ, "PYTHONPATH": folders}
    argv = [sys.executable, str(script), str(path)]
    subprocess.run(argv, check=True, timeout=120, env=environment)
    found: dict[str, Json] = json.loads(path.read_text())
    return found


@pytest.fixture
def make_webgpu(tmp_path: Path, shaders: dict[str, Json]) -> Make:
    """Writes and opens a tiny bundle with a WebGPU program, some of its shaders other ones."""

    def make_bundle(change: Change = lambda manifest: None, **sources: str) -> Bundle:
        folder = tmp_path / f"webgpu{len(list(tmp_path.iterdir()))}"
        others = {name: {"source": source} for name, source in sources.items()}
        manifest = tiny_webgpu.write_bundle(folder, shaders | others)
        change(manifest)
        sample.write_manifest(folder, manifest)
        return Bundle.open(folder)

    return make_bundle


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tiny Vulkan program's SPIR-V by kernel."""
    script = Path(__file__).with_name("tiny_modules.py")
    folder = tmp_path_factory.mktemp("tiny")
    folders = os.pathsep.join(str(ROOT / name) for name in ("runtime", "compiler", "."))
    environment = {**os.environ, "PYTHONPATH": folders}
    argv = [sys.executable, str(script), str(folder)]
    subprocess.run(argv, check=True, timeout=120, env=environment)
    return {path.stem: path.read_bytes() for path in folder.glob("*.spv")}


@pytest.fixture
def make_vulkan(tmp_path: Path, modules: dict[str, bytes]) -> Make:
    """Writes and opens a tiny bundle with a Vulkan program, some of its modules other ones."""

    def make_bundle(change: Change = lambda manifest: None, **others: bytes) -> Bundle:
        folder = tmp_path / f"vulkan{len(list(tmp_path.iterdir()))}"
        manifest = tiny_vulkan.write_bundle(folder, modules | others)
        change(manifest)
        sample.write_manifest(folder, manifest)
        return Bundle.open(folder)

    return make_bundle


@pytest.fixture(scope="session")
def device() -> WgpuDevice:
    """The best adapter; without a GPU that is a driver on the CPU."""
    return WgpuDevice()
