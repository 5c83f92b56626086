"""The chat app in builds: made where Node is there, and otherwise said to be missing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from hatch_build import BUILD, INSTALL, NODE, PAGE, STAMP, chat_app, platform_tag

NPM = f"""#!/bin/sh
PATH={os.defpath}
echo "npm $*" >> "$LOG"
[ "$1" != "$FAILS" ] || {{ echo "npm is unhappy"; exit 1; }}
if [ "$1" = ci ]; then mkdir -p node_modules
else mkdir -p "../{PAGE.parent}" && touch "../{PAGE}"
fi
"""
CI, RUN = " ".join(INSTALL), " ".join(BUILD)
LONG_AGO = 1_000_000_000
"""Seconds of the epoch."""


@dataclass(frozen=True)
class Clone:
    """Sources with a web app, and programs called node and npm that write down their calls."""

    root: Path
    commands: Path

    @property
    def page(self) -> Path:
        return self.root / PAGE

    def build(self) -> str:
        return chat_app(self.root)

    def source(self, name: str, written: float | None = None) -> None:
        """A file of web/, written at a time, or now."""
        path = self.root / "web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        if written is not None:
            os.utime(path, (written, written))

    def program(self, name: str, text: str) -> None:
        (self.commands / name).write_text(text)
        (self.commands / name).chmod(0o755)

    def calls(self) -> list[str]:
        """What npm was called with since this was last asked."""
        log = self.commands / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """A fresh one, whose files are old."""
    made = Clone(tmp_path / "clone", tmp_path / "bin")
    for name in ("package.json", "package-lock.json", "chat/app.ts"):
        made.source(name, LONG_AGO)
    made.commands.mkdir()
    made.program("node", f"#!/bin/sh\necho v{NODE}.1.0\n")
    made.program("npm", NPM)
    monkeypatch.setenv("PATH", str(made.commands))
    monkeypatch.setenv("LOG", str(made.commands / "log"))
    monkeypatch.setenv("FAILS", "")
    return made


@pytest.fixture
def built(clone: Clone) -> Clone:
    """The same after a build."""
    clone.build()
    clone.calls()
    return clone


def test_a_fresh_clone_gets_what_the_app_needs_and_the_app(clone: Clone) -> None:
    assert clone.build() == "the chat app was built."
    assert clone.calls() == [CI, RUN]
    assert clone.page.is_file()
    assert (clone.root / "web" / STAMP).is_file()


def test_an_app_that_is_newer_than_its_sources_stays(built: Clone) -> None:
    assert built.build() == "the chat app is up to date."
    assert built.calls() == []


@pytest.mark.parametrize("name", ["chat/app.ts", "chat/new.css", "vite.app.ts"])
def test_a_source_that_changed_is_built_and_nothing_installed(built: Clone, name: str) -> None:
    os.utime(built.page, (LONG_AGO, LONG_AGO))
    built.source(name)
    assert built.build() == "the chat app was built."
    assert built.calls() == [RUN]


def test_a_lock_that_changed_is_installed(built: Clone) -> None:
    for path in (built.page, built.root / "web" / STAMP):
        os.utime(path, (LONG_AGO, LONG_AGO))
    built.source("package-lock.json")
    built.build()
    assert built.calls() == [CI, RUN]


@pytest.mark.parametrize("name", ["tests/app.test.ts", "node_modules/x/x.js", "README.md"])
def test_what_is_no_source_of_the_app_builds_nothing(built: Clone, name: str) -> None:
    os.utime(built.page, (LONG_AGO, LONG_AGO))
    built.source(name)
    assert built.build() == "the chat app is up to date."


def test_sources_without_the_app_s_build_nothing(clone: Clone) -> None:
    (clone.root / "web/package.json").unlink()
    assert "without chat app" in clone.build()
    clone.page.parent.mkdir(parents=True)
    clone.page.touch()
    assert "built before" in clone.build()
    assert clone.calls() == []


@pytest.mark.parametrize("missing", ["node", "npm"])
def test_without_node_the_build_says_what_is_left_out_and_why(clone: Clone, missing: str) -> None:
    (clone.commands / missing).unlink()
    said = clone.build()
    assert said.startswith(f"the chat app is left out: it is built with Node {NODE} or newer")
    assert "not both on the PATH" in said
    assert not clone.page.exists()


def test_an_older_app_stays_where_there_is_no_node(built: Clone) -> None:
    os.utime(built.page, (LONG_AGO, LONG_AGO))
    built.source("chat/app.ts")
    (built.commands / "node").unlink()
    assert "is older than its sources" in built.build()
    assert built.page.is_file()


@pytest.mark.parametrize("says", [f"v{NODE - 1}.9.0", "v8.0.0", ""])
def test_an_old_node_builds_nothing(clone: Clone, says: str) -> None:
    clone.program("node", f"#!/bin/sh\necho {says}\n")
    assert f"this is {says or 'another program'}." in clone.build()
    assert clone.calls() == []


@pytest.mark.parametrize("fails", ["ci", "run"])
def test_what_npm_says_when_it_fails_is_passed_on(
    clone: Clone, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", fails)
    said = clone.build()
    assert "left out" in said
    assert "npm is unhappy" in said
    assert not clone.page.exists()


def test_a_wheel_takes_the_platforms_of_the_one_its_library_is_from() -> None:
    wheel = "Wheel-Version: 1.0\nTag: py3-none-manylinux_2_27_x86_64\nTag: cp39-abi3-linux_x86_64\n"
    assert platform_tag(wheel) == "py3-none-manylinux_2_27_x86_64.linux_x86_64"
