"""A compiler in a process of its own does what one here does, and ends when nobody waits for it."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise_compiler.apart import CompileOptions, compile_apart
from edgewise_compiler.compile import compile_model
from edgewise_compiler.phases import CALIBRATING, IN_BYTES, PROVING
from edgewise_runtime.errors import CompileError, EdgewiseError
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from tests.processes import children

CASE = "llama-gqa2-tied-linear"
WORKER = "edgewise_compiler.worker"


@pytest.mark.landing
def test_the_same_bundle_comes_out_and_its_phases_are_heard(
    bundles: BundleFactory, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    heard: list[tuple[str, int, int]] = []
    made = compile_apart(
        checkpoints(CASE),
        tmp_path / "bundle",
        targets=("cpu",),
        quant="q4",
        max_batch=8,
        prefill_chunk=128,
        progress=lambda *step: heard.append(step),
    )
    assert Bundle.open(made).manifest.files == Bundle.open(bundles(CASE)).manifest.files
    phases = [*dict.fromkeys(phase for phase, _, _ in heard)]
    assert phases[:3] == ["Checking weights", "Reading", "Packing weights"]
    assert phases[-1] == "Writing the bundle"
    ends = {phase: (done, total) for phase, done, total in heard}
    assert all(done == total > 0 for done, total in ends.values())
    assert all(heard.count((phase, *end)) == 1 for phase, end in ends.items() if phase in IN_BYTES)
    assert all(phase in phases for phase in IN_BYTES - {CALIBRATING, PROVING})
    assert children(WORKER) == []


def test_an_error_arrives_as_it_was_raised(tmp_path: Path) -> None:
    found: list[EdgewiseError] = []
    for compile_it in (compile_model, compile_apart):
        with pytest.raises(EdgewiseError) as error:
            compile_it(tmp_path / "nowhere", tmp_path / "bundle")
        found.append(error.value)
    here, apart = found
    assert type(apart) is type(here)
    assert (apart.message, apart.remedy, apart.code) == (here.message, here.remedy, here.code)
    assert apart.remedy


def interrupt(phase: str, done: int, total: int) -> None:
    raise KeyboardInterrupt


def kill(phase: str, done: int, total: int) -> None:
    for pid in children(WORKER):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("progress", "raised"), [(interrupt, KeyboardInterrupt), (kill, CompileError)]
)
def test_one_that_is_ended_leaves_nothing(
    progress: Callable[[str, int, int], None],
    raised: type[BaseException],
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    with pytest.raises(raised) as error:
        compile_apart(checkpoints(CASE), tmp_path / "bundle", progress=progress)
    if isinstance(error.value, CompileError):
        assert error.value.code == "compile.ended"
        assert "SIGKILL" in error.value.message
        assert "memory" in error.value.remedy
    assert children(WORKER) == []
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_of_ours_is_one_there_too_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="unexpected keyword argument 'nonsense'") as error:
        compile_apart(tmp_path, tmp_path / "bundle", nonsense=1)  # type: ignore[call-arg]
    assert error.value.code == "internal"
    assert "Traceback" in error.value.__notes__[0]


def test_what_can_be_asked_for_is_what_the_compiler_takes() -> None:
    taken = inspect.signature(compile_model).parameters.keys() - {"path", "out", "progress"}
    assert taken == CompileOptions.__annotations__.keys()
