"""Files of a checkpoint, which came from the network: JSON, and errors that name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import parse_json

_AGAIN = "Download the checkpoint again."


def checkpoint_json(raw: bytes, path: Path) -> Any:
    """``raw`` as JSON in UTF-8; configurations may hold ``NaN`` and ``Infinity``, as Python does.

    Raises:
        CheckpointError: no JSON, a key twice in an object, or too many levels.
    """
    return parse_json(raw, path.name, CheckpointError, what="file", remedy=_AGAIN, constants=True)


def damaged(path: Path, why: str) -> CheckpointError:
    """The error for a file that is not what it should be."""
    return CheckpointError(f"{path.name} is damaged: {why}.", remedy=_AGAIN, code="checkpoint.file")
