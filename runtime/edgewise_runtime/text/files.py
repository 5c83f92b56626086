"""Reading the small text files of a checkpoint or bundle folder, bounded and with useful errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.files import read_bytes


def read_text(path: Path, *, limit: int) -> str | None:
    """Return a UTF-8 file's text, or None where there is no such file.

    Raises StorageError when it is larger than `limit` bytes or unreadable, CheckpointError when
    it is not UTF-8.
    """
    if not path.exists():
        return None
    try:
        return read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 text: {error.reason}.") from error


def read_object(path: Path, *, limit: int = 16 << 20) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty one where there is no such file."""
    text = read_text(path, limit=limit)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}, not an object.")
    return value
