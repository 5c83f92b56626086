"""A process that does a thing again and again holds no more in the end than after some times."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.leak.doings import DOINGS
from tests.leak.usage import Usage
from tests.sdk.cli.commands import environment

pytestmark = pytest.mark.landing

CASE = "llama-gqa2-tied-linear"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Count:
    """How often a thing is done.

    Attributes:
        warm: times before the first look: caches fill, threads begin.
        few: times more in the landing suite.
        many: times more in the full one.
        growth: bytes in memory that may be more after `many`; what allocators keep of what was
            freed comes and goes by some MB.
    """

    warm: int
    few: int
    many: int
    growth: int = 16 << 20


COUNTS = {
    "loads": Count(warm=40, few=10, many=1000),
    "gpu_loads": Count(warm=2, few=3, many=100),
    "dropped_loads": Count(warm=5, few=5, many=300),
    "refused_loads": Count(warm=5, few=10, many=300),
    "requests": Count(warm=60, few=60, many=10_000),
    "served": Count(warm=20, few=40, many=10_000),
}


def done(name: str, bundle: Path, warm: int, count: int) -> tuple[Usage, Usage]:
    """What a process held before and after it did a thing so often."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.leak.doings", name, str(bundle), str(warm), str(count)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    before, after = json.loads(process.stdout.splitlines()[-1])
    return Usage(**before), Usage(**after)


def test_every_doing_has_its_count() -> None:
    assert DOINGS.keys() == COUNTS.keys()


@pytest.fixture(scope="session")
def both(bundles: Callable[..., Path]) -> Path:
    """A tiny bundle with programs for the CPU and for WebGPU."""
    return bundles(CASE, targets=("cpu", "webgpu"))


def check(name: str, bundle: Path, warm: int, count: int, growth: int) -> None:
    before, after = done(name, bundle, warm, count)
    held = (before.threads, before.descriptors, before.mappings, before.children)
    assert (after.threads, after.descriptors, after.mappings, after.children) == held
    assert after.resident - before.resident < growth


@pytest.mark.parametrize("name", COUNTS)
def test_nothing_is_left_behind_by(name: str, both: Path) -> None:
    count = COUNTS[name]
    # Memory is still settling then: only what grows at every turn, and by much, shows.
    check(name, both, min(count.warm, 5), count.few, 64 << 20)


@pytest.mark.full
@pytest.mark.parametrize("name", COUNTS)
def test_nothing_is_left_behind_by_many(name: str, both: Path) -> None:
    count = COUNTS[name]
    check(name, both, count.warm, count.many, count.growth)
