"""Kernel tests of other folders, with every kernel in MSL on the emulator.

The landing suite runs one case of each file, which a hash of their names decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.targets.metal.codegen import shader
from tests.gpu import Array, elsewhere
from tests.gpu_emulator.build import METAL
from tests.gpu_emulator.execute import run_shader
from tests.gpu_emulator.share import mark_all_but

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def on_the_emulator() -> Iterator[None]:
    """Has `tests.gpu.run` execute MSL."""

    def run(launch: Launch, arrays: Sequence[Array], grid: tuple[int, int]) -> list[Array]:
        return run_shader(shader(launch.function), arrays, grid, dialect=METAL)

    with elsewhere(run):
        yield


@pytest.hookimpl(tryfirst=True)  # before what the files that these come from say of samples
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_all_but(1, items, HERE)
