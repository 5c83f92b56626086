"""JSON that a model has written, or somebody for it."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def read_json(text: str) -> Any:
    """Return the value of a JSON text; of a key that comes twice the last.

    Raises ValueError for anything else, with NaN and what nests too deeply to be read.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
