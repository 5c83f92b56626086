"""Programs on the emulator, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu_emulator import programs


@pytest.fixture(scope="session")
def emulated(
    shared: Path, checkpoints: Callable[[str], Path], own_data_folder: None
) -> programs.Emulate:
    """See `programs.Emulate`."""
    folder = shared / "emulated"
    folder.mkdir(exist_ok=True)

    def emulate(
        case: str, quant: str, program: str, pages: int, kv: str = "auto"
    ) -> programs.LoadedProgram:
        target = program.partition("-")[0]
        made = programs.compiled(
            checkpoints(case), folder / "-".join((case, quant, kv, target)), quant, kv, (target,)
        )
        return programs.load(made, program, pages)

    return emulate
