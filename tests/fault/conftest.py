"""Folders in which something is tried with faults, and how one sees that they are whole."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewise_compiler.targets.cpu.linker import find_linker
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory, made_once
from tests.fault.doings import CONTEXTS
from tests.fault.faults import Trial, trial
from tests.sdk.hub.repositories import FOLDER, NAME, READ, noise
from tests.sdk.hub.small_hub import serve_hub

CASE = "llama-gqa2-tied-linear"
WEIGHTS = "model.safetensors"
NEWER = FOLDER | {WEIGHTS: noise("newer")}
"""The model at the hub, which there is an older one of in the cache."""


_PROBE = re.compile("[a-z0-9_]{8}")


@dataclass(frozen=True)
class Place:
    """A folder, and what is tried in it.

    Attributes:
        check: finds what was there before, or what was to come, whole; raises where neither is.
    """

    what: str
    folder: Path
    trial: Trial
    check: Callable[[Path], object]

    def left(self) -> list[str]:
        """What a process that has ended left behind.

        Not looked at are unfinished notes of the hub's library, and the file by which Python finds
        out whether it can write to TMPDIR: both are theirs.
        """
        hidden = [path for path in self.folder.rglob(".*") if path.name != ".locks"]
        temporary = [path for path in self.folder.rglob("*.tmp") if path.parent.name != "trees"]
        passing = [p for p in (self.folder / "tmp").iterdir() if not _PROBE.fullmatch(p.name)]
        found = {*hidden, *temporary, *passing}
        return sorted(str(path.relative_to(self.folder)) for path in found)


@pytest.fixture(scope="session")
def shim(shared: Path) -> Path:
    """The library that refuses, built once."""

    def build(path: Path) -> None:
        source = Path(__file__).with_name("shim.c")
        flags = ("-O2", "-Wall", "-Werror", "-fPIC", "-shared")
        subprocess.run([*find_linker(), *flags, "-o", path, source, "-ldl"], check=True)

    return made_once(shared / "libfault.so", build)


@pytest.fixture(scope="module", params=["compile", "run", "pages", "pull"])
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    shim: Path,
    bundles: BundleFactory,
    checkpoints: Callable[[str], Path],
) -> Iterator[Place]:
    """A folder for each thing that is tried."""
    what, folder = request.param, tmp_path_factory.mktemp("place")
    if what == "pull":
        with _pulled(folder, shim) as place:
            yield place
        return
    if what != "pages":
        shutil.copytree(checkpoints(CASE), folder / "checkpoint")
        shutil.copytree(bundles(CASE), folder / "dist/bundle")
    check = _nothing if what == "pages" else _bundle
    with trial(what, folder, shim) as tried:
        yield Place(what, folder, tried, check)


@contextmanager
def _pulled(folder: Path, shim: Path) -> Iterator[Place]:
    with serve_hub() as hub:
        variables = {
            "HF_ENDPOINT": hub.url,
            "HF_HUB_CACHE": str(folder / "hub"),
            "HF_TOKEN_PATH": str(folder / "token"),
            "NO_PROXY": "127.0.0.1",
            "MODEL": NAME,
        }
        hub.add(NAME, FOLDER)
        with trial("pull", folder, shim, **variables) as tried:
            assert not tried.run(None).error
            shutil.copytree(folder / "hub", folder / "older", symlinks=True)
            hub.add(NAME, NEWER)
            yield Place("pull", folder, tried, _model)


def _bundle(folder: Path) -> None:
    bundle = Bundle.open(folder / "dist/bundle")
    bundle.check()
    assert bundle.model.context in CONTEXTS


def _nothing(folder: Path) -> None:
    """Pages need not be there, and who finds one looks whether it is whole."""


def _model(folder: Path) -> None:
    (home,) = (folder / "hub").glob("models--*")
    here = home / "snapshots" / (home / "refs/main").read_text()
    found = {path.name: path.read_bytes() for path in here.iterdir()}
    assert found in (READ, READ | {WEIGHTS: NEWER[WEIGHTS]})
