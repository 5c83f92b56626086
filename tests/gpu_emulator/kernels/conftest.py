"""Kernel tests of other folders, with every kernel in CUDA C on the emulator.

The landing suite runs one case of each file, which a hash of their names decides, the quick one of
three.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.targets.cuda.codegen import shader
from tests.gpu import Array, elsewhere
from tests.gpu_emulator.execute import run_shader
from tests.gpu_emulator.share import mark_all_but

HERE = Path(__file__).parent
QUICK = ("test_attention.py", "test_matvec.py", "test_sample.py")


@pytest.fixture(autouse=True)
def on_the_emulator() -> Iterator[None]:
    """Has `tests.gpu.run` execute CUDA C."""

    def run(launch: Launch, arrays: Sequence[Array], grid: tuple[int, int]) -> list[Array]:
        return run_shader(shader(launch.function), arrays, grid)

    with elsewhere(run):
        yield


@pytest.hookimpl(tryfirst=True)  # before what the files that these come from say of samples
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_all_but(1, items, HERE, quick=QUICK)
