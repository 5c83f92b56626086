"""A CUDA device on the emulated driver, and the tiny program for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cuda import gpu
from edgewise_runtime.devices.cuda.device import CudaDevice
from edgewise_runtime.devices.cuda.driver import DRIVER
from edgewise_runtime.format.bundle import Bundle
from tests.gpu_emulator.driver import emulated
from tests.runtime import sample
from tests.runtime.devices import tiny_cuda
from tests.runtime.devices.gpu_programs import GpuTiny
from tests.runtime.sample import Json

Change = Callable[[Json], object]
Make = Callable[..., Bundle]

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny program's fatbins, and its kernels for the emulated driver."""
    folder = tmp_path_factory.mktemp("tiny")
    folders = os.pathsep.join(str(ROOT / name) for name in ("runtime", "compiler", "sdk", "."))
    command = [sys.executable, "-m", "tests.runtime.devices.tiny_cuda", str(folder)]
    environment = {**os.environ, "PYTHONPATH": folders}
    subprocess.run(command, check=True, timeout=300, env=environment)
    return folder


@pytest.fixture
def driver(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The emulated driver instead of NVIDIA's; contexts end with the test."""
    monkeypatch.setenv(DRIVER, str(emulated.driver_path()))
    monkeypatch.setenv("EDGEWISE_EMULATED_KERNELS", str(kernels))
    yield
    emulated.fail(-1, 0)
    for opened in gpu._open.values():
        opened.discard()
    gpu._open.clear()


@pytest.fixture
def device(driver: None) -> CudaDevice:
    """The emulated GPU."""
    return CudaDevice()


@pytest.fixture
def make_cuda(tmp_path: Path, kernels: Path) -> Make:
    """Writes and opens a tiny bundle with a CUDA program, some of its fatbins other ones."""

    def make_bundle(change: Change = lambda manifest: None, **others: bytes) -> Bundle:
        folder = tmp_path / f"cuda{len(list(tmp_path.iterdir()))}"
        own = {name: (kernels / f"{name}.fatbin").read_bytes() for name in tiny_cuda.KERNELS}
        manifest = tiny_cuda.write_bundle(folder, own | others)
        change(manifest)
        sample.write_manifest(folder, manifest)
        return Bundle.open(folder)

    return make_bundle


@pytest.fixture
def tiny(device: CudaDevice, make_cuda: Make) -> GpuTiny:
    def waits(program: LoadedProgram) -> int:
        return program.counters.waits

    return GpuTiny(device, make_cuda, tiny_cuda.ID, CudaDevice, waits)


@pytest.fixture
def program(tiny: GpuTiny) -> Iterator[LoadedProgram]:
    """The tiny program loaded with 4 pages."""
    with tiny.load() as loaded:
        yield loaded
