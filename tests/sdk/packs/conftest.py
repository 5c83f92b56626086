"""A bundle with a pack, and copies of it that a test may change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.packs.making import Made, make_packs, runners_of
from edgewise.packs.prompt import PackPrompt, read_prompt
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import made_once

SYSTEM = "You answer in one word. You never explain, and you never ask. " * 6
Copy = Callable[[], Path]


def pack(folder: Path, prompt: PackPrompt, name: str = "terse") -> list[Made]:
    """Add a pack to a bundle for all of its programs that run here."""
    bundle = Bundle.open(folder, verify=False)
    runners, _ = runners_of(bundle)
    bundle.close()
    return make_packs(folder, prompt, name, runners)


@pytest.fixture(scope="session")
def prompt(shared: Path) -> PackPrompt:
    # Other processes of the session read it, too: it is there only once it is written.
    file = made_once(shared / "terse.txt", lambda out: out.write_text(f"{SYSTEM}\n"))
    return read_prompt(file, plain=False)


@pytest.fixture(scope="session")
def packed(demo_bundle: Path, shared: Path, prompt: PackPrompt) -> Path:
    """The demo model with a pack of a system prompt."""

    def make(out: Path) -> None:
        shutil.copytree(demo_bundle, out)
        pack(out, prompt)

    return made_once(shared / "packed", make)


@pytest.fixture
def copy(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed, tmp_path / packed.name))
