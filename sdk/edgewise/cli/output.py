"""Where commands print: as wide as the terminal, and unwrapped where there is none."""

from __future__ import annotations

from rich.console import Console

WIDE = 10_000
"""Columns where nobody looks: each row of a table stays one line for whatever reads it."""


def stdout_console() -> Console:
    """The console of a command's result; markup in names and texts means nothing to it."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if not console.is_terminal:
        console.width = WIDE
    return console
