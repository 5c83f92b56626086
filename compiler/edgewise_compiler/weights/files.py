"""Files of a checkpoint, which came from the network: JSON, rows of tensors, and errors that name
the file."""

from __future__ import annotations

from io import BufferedReader, FileIO
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import parse_json, shorten

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

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


_WEB_PAGE = ("is a web page", "Download the file itself, not the page about it.")

_STANDS_FOR = {
    b"version https://git-lfs.github.com/": (
        "is a pointer of git-lfs, which stands for a file that was not fetched",
        "Fetch the files: edgewise pull ORG/REPO, or git lfs install; git -C {folder} lfs pull",
    ),
    b"<!doctype html": _WEB_PAGE,
    b"<html": _WEB_PAGE,
}
"""How files begin that came instead of others, in lower case; what they are, and the remedy."""


def check_fetched(path: Path) -> None:
    """Raise CheckpointError for a file that only stands for the one that was meant."""
    with path.open("rb") as file:
        head = file.read(max(map(len, _STANDS_FOR))).lower()
    for begins, (what, remedy) in _STANDS_FOR.items():
        if head.startswith(begins):
            raise CheckpointError(
                f"{path.name} {what}.",
                remedy=remedy.format(folder=quote(str(path.parent))),
                code="checkpoint.fetched",
            )


def read_exactly(file: BufferedReader | FileIO, count: int, path: Path) -> Bytes:
    """The next ``count`` bytes of a file; CheckpointError where it ends before them."""
    raw = np.empty(count, np.uint8)
    done = 0
    while done < count:
        # An unbuffered read may return less than it was asked for.
        got = file.readinto(raw[done:].data)
        if not got:
            raise damaged(path, "it ends in the middle of a tensor")
        done += got
    return raw


def check_rows(name: str, start: int, stop: int | None, rows: int) -> int:
    """Where rows ``start..stop`` of a tensor that has ``rows`` end; CheckpointError outside it."""
    stop = rows if stop is None else stop
    if not 0 <= start <= stop <= rows:
        raise CheckpointError(
            f"rows {start}..{stop} of {shorten(name)} were asked for; it has {rows}.",
            code="checkpoint.weights",
        )
    return stop


def check_finite(name: str, values: Floats, start: int) -> None:
    """Raise CheckpointError for a NaN or an infinity; ``values`` begin at row ``start``."""
    finite = np.isfinite(values)
    if finite.all():
        return
    index = np.unravel_index(int(np.argmin(finite)), values.shape)
    value = values[index]
    where = [int(index[0]) + start, *(int(i) for i in index[1:])]
    raise CheckpointError(
        f"{shorten(name)} holds {value} at index {where}.",
        remedy="The checkpoint is damaged or its training diverged: use another one.",
        code="checkpoint.weights",
    )
