"""The built chat app, which lies beside this file in a wheel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgewise.server.resource import Resource, in_memory

FOLDER = Path(__file__).parent / "static"
HASHED = "assets/"
"""Where the build puts files whose names hold a hash of their contents."""

PAGES = {"": "chat/index.html", "selftest": "selftest/selftest.html"}
"""URLs of pages, without the slash."""

BUILD = "install Node 20 or newer and run `make web` in the sources, or install from them again"
"""What to do where it is missing."""

MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>edgewise</title>
<p>The chat app is not built here: install Node 20 or newer and run <code>make web</code> in the
sources, or install from them again, and start the server anew. Its bundles are offered all the
same: see <a href="/api/bundles">/api/bundles</a>.</p>
"""


def built(folder: Path | None = None) -> bool:
    """Whether the app is there."""
    return ((folder or FOLDER) / PAGES[""]).is_file()


def assets(folder: Path | None = None) -> Mapping[str, Resource]:
    """Every built file by its URL without the leading slash, and the pages by theirs."""
    if not built(folder):
        return {"": in_memory(MISSING.encode(), ".html")}
    folder = folder or FOLDER
    urls = {name: url for url, name in PAGES.items()}
    found = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {
        urls.get(name, name): in_memory(
            path.read_bytes(), path.suffix, immutable=name.startswith(HASHED)
        )
        for name, path in found.items()
    }
