"""The one interface that every weight format implements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.weights.files import Bytes


class WeightReader(Protocol):
    """Tensors by name, read a few rows at a time; a context manager that closes its files.

    Implementations hold open files and no tensor data. They are not safe to share between threads.
    """

    def names(self) -> tuple[str, ...]:
        """Every tensor, in the order of the file."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Extents of ``name``. Raises CheckpointError for a tensor that is not there."""
        ...

    def dtype(self, name: str) -> str:
        """How ``name`` is stored, in the format's own spelling, such as ``"BF16"``."""
        ...

    def size(self, name: str) -> int:
        """How many bytes ``name`` takes as it is stored."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Rows ``start..stop`` along the first axis as float32, in a new array.

        Raises:
            CheckpointError: no such tensor, rows out of range, or a value that is NaN or infinite.
            UnsupportedError: stored in a dtype that is not a plain float.
        """
        ...

    def stored(self, name: str) -> Iterator[Bytes]:
        """All bytes of ``name`` as they are stored, uint8, some MiB at a time.

        Where one reader makes other values of them than another, they are followed by how.
        """
        ...

    def close(self) -> None:
        """Close the files; reading afterwards is an error."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...
