"""`edgewise prefix` makes packs, lists them and removes them; `compile --prefix` makes one, too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise_runtime.format.bundle import Bundle
from tests.sdk.cli.conftest import Run

pytestmark = pytest.mark.landing

TEXT = "Answer in one word, and in nothing but that one word. " * 4
MESSAGES = [{"role": "system", "content": TEXT.strip()}, {"role": "user", "content": "Why?"}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "terse.txt"
    path.write_text(f"{TEXT.strip()}\n")
    return path


@pytest.fixture
def folder(demo_bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_bundle, tmp_path / "demo"))


def cached(folder: Path) -> int:
    with Engine(folder) as engine:
        return engine.chat(MESSAGES, max_tokens=1).usage.cached_tokens


@pytest.mark.landing
def test_it_makes_lists_and_removes(edgewise: Run, folder: Path, file: Path) -> None:
    assert "no packs" in edgewise("prefix", folder, "--list")
    made = edgewise("prefix", folder, file)
    tokens = cached(folder)
    assert tokens >= 32
    assert made.startswith(f"terse: {tokens} tokens in {tokens // 16} pages, ")
    _, line = edgewise("prefix", folder, "--list").splitlines()
    assert line.split()[:4] == ["terse", "cpu-w4a8", str(tokens), str(tokens // 16)]
    assert line in edgewise("inspect", folder).splitlines()
    assert edgewise("prefix", folder, "--remove", "terse") == "Removed terse (1 place).\n"
    assert "terse" not in edgewise("inspect", folder)
    assert cached(folder) == 0


def test_a_pack_may_be_given_another_name(edgewise: Run, folder: Path, file: Path) -> None:
    assert edgewise("prefix", folder, file, "--name", "short").startswith("short: ")


def test_without_a_file_there_is_nothing_to_do(edgewise: Run, folder: Path) -> None:
    edgewise("prefix", folder, status=1)


def test_a_target_that_the_bundle_lacks_is_an_error(
    edgewise: Run, folder: Path, file: Path
) -> None:
    edgewise("prefix", folder, file, "--target", "webgpu", status=1)
    Bundle.open(folder).check()


@pytest.mark.full
def test_compiling_makes_one_and_keeps_those_of_other_targets(
    edgewise: Run, checkpoints: Callable[[str], Path], tmp_path: Path, file: Path
) -> None:
    out = tmp_path / "tiny"
    line = ("compile", checkpoints("llama-mha"), "-o", out, "--quant", "q4")
    assert "terse: " in edgewise(*line, "--prefix", file)
    pages = sorted(out.rglob("*.kv"))
    before = [page.read_bytes() for page in pages]
    edgewise(*line, "--target", "webgpu")
    assert [page.read_bytes() for page in pages] == before
    assert "terse" in edgewise("prefix", out, "--list")
    Bundle.open(out).check()
    edgewise(*line, "--target", "cpu")
    assert sorted(out.rglob("*.kv")) == []
