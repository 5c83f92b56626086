"""Packs for GPUs, computed by one that the CPU plays: one for each arithmetic.

web/tests/browser/packs.test.ts has a host compute one in the landing suite, too.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgewise import Engine, Settings
from edgewise.packs.prompt import PackPrompt
from edgewise.packs.writing import packs_of
from edgewise.server.bundles import offer
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory, made_once
from tests.sdk.packs.conftest import pack

CASE = "qwen3-gqa2-tied"
TEXT = "A page holds sixteen tokens. " * 4
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def device() -> WgpuDevice:
    """One for all, so that its kernels are compiled once."""
    return WgpuDevice()


@pytest.fixture(scope="module")
def both(bundles: BundleFactory, shared: Path) -> Path:
    def make(out: Path) -> None:
        shutil.copytree(bundles(CASE, targets=("cpu", "webgpu")), out)
        pack(out, PackPrompt(text=TEXT))

    return made_once(shared / "packed-for-both", make)


def test_there_is_one_for_each_arithmetic_that_runs_here(both: Path, device: WgpuDevice) -> None:
    bundle = Bundle.open(both)
    features = {"cpu": None, "webgpu": device.features()}
    runs = {
        f"prefixes/{program.target}-{program.arithmetic}"
        for program in bundle.manifest.programs
        if (has := features[program.target]) is None or not program.needs.missing(has)
    }
    assert set(packs_of(bundle)) == runs
    bundle.check()


def test_browsers_may_fetch_them_and_need_not(both: Path, bundles: BundleFactory) -> None:
    ours, plain = offer(both), offer(bundles(CASE, targets=("cpu", "webgpu")))
    assert ours.download == plain.download
    more = ours.files.keys() - plain.files.keys()
    assert more == {name for name in ours.bundle.manifest.files if "prefixes/webgpu-" in name}


@pytest.mark.parametrize("program", ["webgpu-f32", "webgpu-f32-subgroups"])
def test_programs_of_one_arithmetic_share_it(both: Path, device: WgpuDevice, program: str) -> None:
    with Engine(both, device=device, program=program) as engine:
        warm = engine.generate(f"{TEXT}And then", max_tokens=12, temperature=0, ignore_eos=True)
        hits = engine.metrics()["prefix_cache_hits_total"]
    settings = Settings(prefix_packs=False)
    with Engine(both, device=device, program=program, settings=settings) as engine:
        cold = engine.generate(f"{TEXT}And then", max_tokens=12, temperature=0, ignore_eos=True)
    assert hits["bundle"] == warm.usage.cached_tokens >= 32
    assert cold.usage.cached_tokens == 0
    assert warm.token_ids == cold.token_ids
