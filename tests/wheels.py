"""Wheels of a copy of these sources, and environments that hold one of them and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "edgewise_runtime": ROOT / "runtime",
    "edgewise_compiler": ROOT / "compiler",
    "edgewise": ROOT / "sdk",
}
BUILT_FROM = (
    "pyproject.toml hatch_build.py README.md LICENSE NOTICE .gitignore light runtime compiler sdk"
).split()
"""All that a wheel is made of, but for the chat app's sources."""

LIST = "git ls-files -z --cached --others --exclude-standard --".split()

STATIC = Path("sdk/edgewise/server/static")


def copy_sources(to: Path, *more: str) -> Path:
    """What git has, or would have, of what a wheel is built from: nothing that was built here."""
    listed = subprocess.run(
        [*LIST, *BUILT_FROM, *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():  # not deleted, and not committed yet
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    return to


def put_app(root: Path) -> None:
    """A chat app of one page and one script, in the place of a built one."""
    for name, text in {
        "chat/index.html": '<script type="module" src="/assets/a.js"></script>',
        "assets/a.js": "run();" * 200,
    }.items():
        (root / STATIC / name).parent.mkdir(parents=True, exist_ok=True)
        (root / STATIC / name).write_text(text)


def build(what: str, root: Path, out: Path, path: str = os.defpath) -> tuple[Path, str]:
    """Call the back end that pip would call.

    Args:
        what: ``wheel`` or ``sdist``.
        path: the PATH, which decides whether there is a Node to build the chat app with.

    Returns:
        What was built, and what was said.
    """
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", what, "--directory", str(out)],
        cwd=root,
        env={**os.environ, "PATH": path},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (built,) = out.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return built, done.stdout


def clean_environment(folder: Path, wheel: Path) -> Path:
    """A virtual environment of a wheel and what it asks for, of this one's versions.

    The wheel is installed by pip; what it asks for, and what that asks for, is linked to, which
    neither downloads nor copies.

    Returns:
        Its folder of commands.
    """
    venv.create(folder, symlinks=True)
    commands = folder / "bin"
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", commands / "python", "install", *options, wheel],
        check=True,
    )
    (installed,) = folder.glob("lib/*/site-packages")
    (metadata,) = installed.glob("edgewise*.dist-info")
    for wanted in asked_for(Distribution.at(metadata).requires or []):
        for top in {file.parts[0] for file in wanted.files or []} - {"..", "__pycache__"}:
            (installed / top).symlink_to(str(wanted.locate_file(top)))
    return commands


def asked_for(requirements: Iterable[str]) -> list[Distribution]:
    """The distributions that requirements lead to, extras only where one asks for them."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        found[name] = distribution(name)
        for asked in {(name, extra) for extra in ("", *wanted.extras)} - seen:
            seen.add(asked)
            waiting += [(Requirement(text), asked[1]) for text in found[name].requires or []]
    return [*found.values()]
