"""Checkpoints of a model without its head, whose tensors lack the ``model.`` that others have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.files import Bytes, Floats

PREFIX = "model."
TABLE, HEAD = "embed_tokens.weight", "lm_head.weight"


def is_bare(reader: WeightReader) -> bool:
    """Whether transformers saved the model inside of one that generates text, and not that."""
    names = reader.names()
    return TABLE in names and not any(name.startswith(PREFIX) for name in names)


class BareReader:
    """A checkpoint's tensors by the names that they have in a model with a head.

    Implements :class:`~.base.WeightReader`.
    """

    def __init__(self, reader: WeightReader) -> None:
        self._reader = reader
        self._stored = {
            name if name == HEAD else f"{PREFIX}{name}": name for name in reader.names()
        }

    def names(self) -> tuple[str, ...]:
        return tuple(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._reader.shape(self._stored.get(name, name))

    def dtype(self, name: str) -> str:
        return self._reader.dtype(self._stored.get(name, name))

    def size(self, name: str) -> int:
        return self._reader.size(self._stored.get(name, name))

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        return self._reader.read(self._stored.get(name, name), start, stop)

    def stored(self, name: str) -> Iterator[Bytes]:
        return self._reader.stored(self._stored.get(name, name))

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
