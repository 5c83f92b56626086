"""Log-probabilities of a real program: those of its logits, before anything sampling does."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.engine.logprobs import (
    TokenLogprob,
    check_logprobs,
    read_logprobs,
    run_logprobs,
)
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from tests.parity.driver import Driver
from tests.runtime import sample

PAGES = 40
PLAIN = SamplingParams()
ALONE = SamplingParams(logprobs=True)
DEVICES = {"cpu": CpuDevice, "webgpu-f32": WgpuDevice, "webgpu-f32-serial": WgpuDevice}


@pytest.fixture(scope="module")
def bundle(bundles: BundleFactory) -> Bundle:
    return Bundle.open(bundles("qwen3-gqa2-tied", "q4", targets=("cpu", "webgpu")))


@pytest.fixture(
    params=[
        pytest.param(name, marks=[] if name == "cpu" else [pytest.mark.landing]) for name in DEVICES
    ]
)
def program(request: pytest.FixtureRequest, bundle: Bundle) -> Iterator[LoadedProgram]:
    wanted = None if request.param == "cpu" else request.param
    device = DEVICES[request.param]()
    with device.load(bundle, wanted, load_symbols={"pages": PAGES}) as loaded:
        yield loaded


def expected(logits: Any, token: int, top: int) -> TokenLogprob:
    """What NumPy makes of one row."""
    wide = logits.astype("float64")
    values = wide - wide.max()
    values -= np.log(np.exp(values).sum())
    best = np.argsort(-wide, kind="stable")[:top]
    return TokenLogprob(
        token, float(values[token]), tuple((int(i), float(values[i])) for i in best)
    )


def assert_equal(found: TokenLogprob | None, wanted: TokenLogprob) -> None:
    assert found is not None
    assert found.token_id == wanted.token_id
    assert [token for token, _ in found.top] == [token for token, _ in wanted.top]
    got = [found.logprob, *(value for _, value in found.top)]
    # float32 sums of a few hundred probabilities against double precision.
    assert got == pytest.approx([wanted.logprob, *(v for _, v in wanted.top)], abs=4e-6)


def test_each_row_gets_what_its_request_asks_for(program: LoadedProgram) -> None:
    driver = Driver(program, pages=PAGES)
    streams = [driver.stream(slot) for slot in range(4)]
    logits = [
        driver.prefill([(stream, [5 + row, 17, 30 * row])])[0][-1]
        for row, stream in enumerate(streams)
    ]
    tokens = np.array([3, int(logits[1].argmin()), 3, 319], np.int32)
    program.write("logits", np.stack([np.pad(row, (0, -len(row) % 32)) for row in logits]))
    program.write("sampled", tokens)
    program.write("step", step_array(4, 4, 4, 8))
    wanted = [ALONE, SamplingParams(logprobs=True, top_logprobs=20), PLAIN]
    wanted.append(SamplingParams(logprobs=True, top_logprobs=3))
    run_logprobs(program, 4)
    found = read_logprobs(program, wanted)
    assert found[2] is None
    for row in (0, 1, 3):
        assert_equal(found[row], expected(logits[row], tokens[row], wanted[row].top_logprobs))


def without_logprobs(bundle: Bundle, folder: Path) -> Bundle:
    """The bundle as compilers wrote it before there were log-probabilities."""
    shutil.copytree(bundle.path, folder)
    manifest = sample.read_manifest(folder)
    for program in manifest["programs"]:
        del program["entries"]["logprobs"]
        del program["plans"]["logprobs"]
    sample.write_manifest(folder, manifest)
    return Bundle.open(folder)


def test_older_bundles_are_refused(bundle: Bundle, tmp_path: Path) -> None:
    older = without_logprobs(bundle, tmp_path / "older")
    with CpuDevice().load(older, load_symbols={"pages": 4}, trust=True) as loaded:
        for ask in (check_logprobs, lambda program: run_logprobs(program, 2)):
            with pytest.raises(BundleError, match="log-probabilities") as caught:
                ask(loaded)
            assert caught.value.code == "bundle.entry"
            assert "Compile" in caught.value.remedy


def test_older_bundles_still_serve_who_does_not_ask(bundle: Bundle, tmp_path: Path) -> None:
    older = without_logprobs(bundle, tmp_path / "older")
    with CpuDevice().load(older, load_symbols={"pages": 4}, trust=True) as loaded:
        assert read_logprobs(loaded, [PLAIN, PLAIN]) == [None, None]


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TokenLogprob(1, -0.5).logprob = 0.0  # type: ignore[misc]
