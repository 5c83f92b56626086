"""Runs the command line in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def environment(**more: str) -> dict[str, str]:
    """This process's environment with our packages importable, and `more`."""
    path = os.pathsep.join(str(ROOT / name) for name in ("runtime", "compiler", "sdk"))
    return {**os.environ, "PYTHONPATH": path, **more}


def command(*argv: object) -> list[str]:
    """The arguments of a process that runs `edgewise argv…`."""
    return [sys.executable, "-m", "edgewise.cli", *map(str, argv)]
