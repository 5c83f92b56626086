"""For how long a model stays in memory, as Ollama's `keep_alive` says it."""

from __future__ import annotations

import math
import re

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

FOREVER = -1.0
LONGEST = 1e8
"""Seconds beyond which it is for ever: three years."""

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|ms|s|m|h)"
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?")
_DURATION = re.compile(rf"[+-]?(?:{_PART}){{1,8}}")
_MOST_CHARACTERS = 64


def seconds_of(given: float | str | None) -> float | None:
    """Seconds of a `keep_alive`: below 0 for ever, 0 for not at all, None where nothing is said.

    Args:
        given: seconds, also as text, or a duration such as ``5m`` or ``1h30m``.

    Raises:
        InputError: ``input.keep_alive``.
    """
    if given is None:
        return None
    seconds = _of_text(given) if isinstance(given, str) else float(given)
    if math.isnan(seconds):
        raise InputError(
            f"keep_alive is {shorten(given)}.",
            remedy='Give seconds, a duration such as "5m", or -1 for as long as the server runs.',
            code="input.keep_alive",
        )
    return seconds if 0 <= seconds <= LONGEST else FOREVER


def _of_text(text: str) -> float:
    """Seconds; not a number for what says none."""
    text = text.strip() if len(text) <= _MOST_CHARACTERS else ""
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return math.nan
    seconds = sum(float(count) * _UNITS[unit] for count, unit in re.findall(_PART, text))
    return -seconds if text.startswith("-") else seconds
