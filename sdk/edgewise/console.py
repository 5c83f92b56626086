"""Where the library and the commands say what is no result."""

from __future__ import annotations

from rich.console import Console


def stderr_console(*, soft_wrap: bool = True) -> Console:
    """The console of what is said beside a result; emoji in names and texts mean nothing to it."""
    return Console(stderr=True, emoji=False, highlight=False, soft_wrap=soft_wrap)
