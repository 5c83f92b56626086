"""Reading files that came from the network: JSON, and errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgewise_compiler.models.fields import shown
from edgewise_runtime.errors import CheckpointError, StorageError


def parse_json(raw: bytes, path: Path) -> Any:
    """``raw`` as JSON in UTF-8; a key that occurs twice in an object is an error."""
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its JSON cannot be parsed ({shown(str(error))})") from error


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into StorageError naming ``path``."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror or error}.",
            remedy="Check that the file is there, readable and on a healthy disk.",
        ) from error


def damaged(path: Path, why: str) -> CheckpointError:
    """The error for a file that is not what it should be."""
    return CheckpointError(
        f"{path.name} is damaged: {why}.",
        remedy="Download the checkpoint again.",
        code="checkpoint.file",
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key occurs twice")
    return unique
