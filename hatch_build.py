"""What a build adds to the sources: the chat app, and to edgewise-light TVM's runtime library.

The app is built where its sources and Node with npm are there, unless it is newer than they are.
Where it cannot be built the build goes on without it and says so: everything but the page that
`edgewise serve` hands out works.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
PAGE = Path("sdk/edgewise/server/static/chat/index.html")
NODE = 20
"""The oldest version that web/ is built with."""

INSTALL = ("npm", "ci", "--loglevel=error")
BUILD = ("npm", "run", "--silent", "build:app", "--", "--logLevel", "error")
STAMP = "node_modules/ready.stamp"
"""Newer than package-lock.json where what it lists is installed; the Makefile looks at it, too."""

NO_SOURCES = {"node_modules", "tests", "dist"}

TVM = "apache-tvm"
LIBRARY = re.compile(r"tvm/lib/(?:libtvm_runtime\.(?:so|dylib)|tvm_runtime\.dll)")
LICENCES = re.compile(r"tvm/((?:LICENSE|NOTICE)|licenses/[^/]+)")


class Additions(BuildHookInterface[Any]):
    """Called by hatchling before it collects the files of a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # `make` builds the app where it is wanted
            return
        self.app.display_info(f"edgewise: {chat_app(ROOT)}")
        if folder := self.config.get("tvm-runtime"):
            tvm = distribution(TVM)
            build_data["force_include"].update(runtime_files(folder))
            build_data["tag"] = platform_tag(tvm.read_text("WHEEL") or "")
            build_data["pure_python"] = False


def chat_app(root: Path) -> str:
    """Build the app in ``root`` where that is due and possible; returns what became of it."""
    web, page = root / "web", root / PAGE
    there = page.is_file()
    if not (web / "package.json").is_file():
        return "the chat app was built before." if there else "these sources are without chat app."
    if there and page.stat().st_mtime >= max(path.stat().st_mtime for path in sources(web)):
        return "the chat app is up to date."
    left = "is older than its sources" if there else "is left out"
    if trouble := no_node():
        return f"the chat app {left}: it is built with Node {NODE} or newer, and {trouble}."
    try:
        lock, stamp = web / "package-lock.json", web / STAMP
        if not stamp.is_file() or stamp.stat().st_mtime < lock.stat().st_mtime:
            run(INSTALL, web)
            stamp.touch()
        run(BUILD, web)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stdout", None) or ""
        return f"the chat app {left}: {error}\n{said}".rstrip()
    return "the chat app was built."


def sources(web: Path) -> Iterator[Path]:
    """What the app is built from."""
    for path in web.iterdir():
        if path.name not in NO_SOURCES:
            files = (path, *path.rglob("*"))
            yield from (file for file in files if file.is_file() and file.suffix != ".md")


def no_node() -> str:
    """Why nothing can be built with Node here; empty where it can."""
    if not (shutil.which("node") and shutil.which("npm")):
        return "node and npm are not both on the PATH"
    found = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    major = re.match(r"v(\d+)\.", found)
    return "" if major and int(major[1]) >= NODE else f"this is {found or 'another program'}"


def run(command: tuple[str, ...], folder: Path) -> None:
    subprocess.run(
        command,
        cwd=folder,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def runtime_files(folder: str) -> dict[str, str]:
    """TVM's runtime library of this environment and its licences, by where they lie in a wheel."""
    tvm = distribution(TVM)
    found: dict[str, str] = {}
    for file in tvm.files or []:
        if LIBRARY.fullmatch(file.as_posix()):
            found[str(tvm.locate_file(file))] = f"{folder}/{file.name}"
        elif licence := LICENCES.fullmatch(file.as_posix()):
            found[str(tvm.locate_file(file))] = f"{folder}/tvm/{licence[1]}"
    if not any(target.count("/") == folder.count("/") + 1 for target in found.values()):
        raise FileNotFoundError(f"{TVM} {tvm.version} has no runtime library.")
    return found


def platform_tag(wheel: str) -> str:
    """The tag of a wheel that holds a library of another one, from that one's WHEEL file."""
    tags = [line.removeprefix("Tag: ").split("-") for line in wheel.splitlines() if "Tag: " in line]
    platforms = ".".join(dict.fromkeys(platform for _, _, platform in tags))
    return f"py3-none-{platforms}"
