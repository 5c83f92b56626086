"""The tiny program compiled for real, in a process of its own: this one never imports tvm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise_runtime.bundle import Bundle
from edgewise_runtime.devices.cpu import CpuDevice, CpuProgram
from tests.runtime import sample
from tests.runtime.sample import Json

Change = Callable[[Json], object]
Make = Callable[..., Bundle]


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
