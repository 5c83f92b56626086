"""Which model is meant: Ollama's clients write names with tags, such as ``qwen3:latest``."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

LATEST = ":latest"
MOST_LISTED = 20


def named(asked: str, names: Sequence[str]) -> str:
    """The name among these that is meant: as it is written, or else without its tag.

    Raises InputError ``input.model`` where there is none.
    """
    found = next((name for name in _spellings(asked) if name in names), None)
    if found is None:
        raise InputError(
            f"model {shorten(asked)} not found.",
            remedy=f"There are: {', '.join(names[:MOST_LISTED])}."
            if names
            else "No model is served.",
            code="input.model",
        )
    return found


def _spellings(asked: str) -> tuple[str, ...]:
    """In the order in which they are looked for."""
    last = asked.rpartition("/")[2]
    if ":" not in last:
        return asked, asked + LATEST
    return asked, asked.rpartition(":")[0]
