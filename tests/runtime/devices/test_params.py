"""A program has the weights that were verified, whatever becomes of their files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.base import Device
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle, Progress
from tests.runtime import sample

Make = Callable[..., Bundle]

PARAMS = "params/cpu/00000.safetensors"


@dataclass(frozen=True)
class Case:
    """A bundle and what loads it."""

    bundle: Bundle
    device: Device

    @property
    def params(self) -> Path:
        return self.bundle.path / PARAMS

    def weight(self, progress: Progress | None = None) -> list[float]:
        """The weight of a program that is loaded just now."""
        options = {"load_symbols": {"pages": 4}, "trust": True, "progress": progress}
        with self.device.load(self.bundle, **options) as program:
            return list(program.read("w").tolist())

    def while_loading(self, change: Callable[[Path], object]) -> Progress:
        """Changes the parameters once, as soon as they were hashed."""
        left = [change]

        def progress(what: str, done: int, total: int) -> None:
            if what == PARAMS and done == total and left:
                left.pop()(self.params)

        return progress


@pytest.fixture(params=["cpu", "webgpu"])
def case(request: pytest.FixtureRequest) -> Case:
    if request.param == "cpu":
        return Case(request.getfixturevalue("make")(), CpuDevice(2))
    device = request.getfixturevalue("device")
    return Case(request.getfixturevalue("make_webgpu")(), device)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\x40" * path.stat().st_size)


def shorten(path: Path) -> None:
    os.truncate(path, 70)


CHANGES = {"overwritten": overwrite, "cut short": shorten}


@pytest.mark.parametrize("how", CHANGES)
def test_parameters_that_change_while_they_are_loaded_are_refused(case: Case, how: str) -> None:
    with pytest.raises(EdgewiseError, match=r"00000\.safetensors") as error:
        case.weight(case.while_loading(CHANGES[how]))
    assert error.value.code in {"bundle.checksum", "device.file"}


@pytest.mark.parametrize("how", CHANGES)
def test_what_was_verified_once_is_verified_again_where_it_changed(case: Case, how: str) -> None:
    case.weight()
    CHANGES[how](case.params)
    with pytest.raises(EdgewiseError) as error:
        case.weight()
    assert error.value.code in {"bundle.checksum", "bundle.size"}


@pytest.mark.parametrize(
    "touch",
    [lambda path: os.utime(path, ns=(1, 1)), lambda path: os.link(path, path.with_name("other"))],
    ids=["older", "linked"],
)
def test_a_file_of_another_time_and_the_same_contents_is_loaded(
    case: Case, touch: Callable[[Path], object]
) -> None:
    assert case.weight(case.while_loading(touch)) == sample.WEIGHT.tolist()


@pytest.mark.parametrize("how", CHANGES)
def test_files_of_a_program_that_is_loaded_may_change(case: Case, how: str) -> None:
    options = {"load_symbols": {"pages": 4}, "trust": True}
    with case.device.load(case.bundle, **options) as program:
        program.write("x", np.ones((4, 8), np.float32))
        program.write("table", np.zeros((2, 12), np.int32))
        # Touching what is mapped of a file that was cut short would end this process.
        assert str(case.params) not in Path("/proc/self/maps").read_text()
        CHANGES[how](case.params)
        program.run("prefill")
        assert program.read("w").tolist() == sample.WEIGHT.tolist()
