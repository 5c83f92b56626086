"""What loaded programs of every device do alike: `ProgramTests`, for each device's tests.

A folder's conftest has two fixtures: ``tiny``, and ``program``, loaded with 4 pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.errors import DeviceError, EdgewiseError, PlanError
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.sample import Json

PAGES = {"pages": 4}

Change = Callable[[Json], object]


@dataclass(frozen=True)
class Tiny:
    """A device and what makes bundles of the tiny program that it runs.

    Attributes:
        make: writes and opens a bundle, its manifest changed before it is written.
        program: the program's id.
    """

    device: Device
    make: Callable[..., Bundle]
    program: str

    def load(
        self,
        change: Change = lambda manifest: None,
        program: str | None = None,
        **options: Any,
    ) -> LoadedProgram:
        """The tiny program loaded with 4 pages, or as options say."""
        asked = {"load_symbols": PAGES, "trust": True} | options
        return self.device.load(self.make(change), program, **asked)


def refused(action: Callable[[], object], kind: type[EdgewiseError] = DeviceError) -> str:
    """The code of the error an action raises."""
    with pytest.raises(kind) as error:
        action()
    return error.value.code


class ProgramTests:
    """Subclassed in the tests of each device."""

    def test_writing_goes_to_an_offset_in_elements(self, program: LoadedProgram) -> None:
        program.write("x", np.array([[1, 2], [3, 4]], np.float32), 7)
        assert program.read("x").reshape(-1)[6:12].tolist() == [0, 1, 2, 3, 4, 0]
        program.write("x", np.zeros(0, np.float32), 32)
        program.write("x", np.arange(64, dtype=np.float32).reshape(8, 8)[::2])
        assert program.read("x")[3].tolist() == list(range(48, 56))

    @pytest.mark.parametrize(
        ("name", "values", "offset"),
        [
            ("x", np.zeros(8, np.float64), 0),
            ("x", np.zeros(8, np.int32), 0),
            ("x", np.zeros(33, np.float32), 0),
            ("x", np.zeros(8, np.float32), 25),
            ("x", np.zeros(8, np.float32), -1),
            ("x", np.zeros(0, np.float32), 33),
            ("w", np.zeros(8, np.float32), 0),
            ("y", np.zeros(8, np.float32), 0),
            ("scratch.0", np.zeros(8, np.uint8), 0),
        ],
    )
    def test_a_write_that_does_not_fit_is_refused(
        self, program: LoadedProgram, name: str, values: Any, offset: int
    ) -> None:
        assert refused(lambda: program.write(name, values, offset)) == "device.buffer"
        assert not program.read("x").any()

    @pytest.mark.parametrize(
        ("plan", "k"), [("decode", 0), ("decode", 9), ("decode", -1), ("prefill", 2), ("sing", 1)]
    )
    def test_only_what_the_plans_allow_is_run(
        self, program: LoadedProgram, plan: str, k: int
    ) -> None:
        assert refused(lambda: program.run(plan, k)) == "device.plan"
        assert not program.read("x").any()

    def test_a_closed_program_refuses_everything(self, tiny: Tiny) -> None:
        program = tiny.load()
        program.close()
        program.close()
        for use in (
            lambda: program.run("decode"),
            lambda: program.read("x"),
            lambda: program.view("x"),
            lambda: program.write("x", np.zeros(1, np.float32)),
            program.memory,
            lambda: next(program.trace("decode")),
            program.__enter__,
        ):
            assert refused(use) == "device.closed"

    @pytest.mark.parametrize(
        ("symbols", "code"),
        [({}, "plan.symbol"), ({"pages": 0}, "plan.range"), ({"pages": 1 << 30}, "plan.range")],
    )
    def test_load_symbols_are_checked(self, tiny: Tiny, symbols: dict[str, int], code: str) -> None:
        assert refused(lambda: tiny.load(load_symbols=symbols), PlanError) == code
