"""Vectors of texts, as APIs cut them and write them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgewise.embedding import normalized
from edgewise.hosting.base import Embedded, Facts
from edgewise_runtime.errors import InputError

MAX_NUMBERS = 1 << 23
"""Of all vectors of one answer."""

Vector = npt.NDArray[np.float32]


def check_vectors(facts: Facts, texts: int, dimensions: int | None) -> None:
    """Refuse what a model's vectors cannot be cut to, and more of them than one answer has.

    Raises:
        InputError: ``input.dimensions``, ``input.texts``.
    """
    if dimensions is not None and not 1 <= dimensions <= facts.hidden:
        raise InputError(
            f"dimensions is {dimensions:,}; vectors of this model have {facts.hidden:,}.",
            remedy=f"Ask for 1 to {facts.hidden:,}, or leave dimensions out.",
            code="input.dimensions",
        )
    if texts * facts.hidden > MAX_NUMBERS:
        raise InputError(
            f"{texts:,} vectors of {facts.hidden:,} numbers are more than the {MAX_NUMBERS:,} "
            "numbers of an answer.",
            remedy="Ask for fewer texts at a time.",
            code="input.texts",
        )


def vector_of(one: Embedded, dimensions: int | None = None) -> Vector:
    """The vector, float32 [hidden]; or its first `dimensions` numbers, made one of length 1."""
    vector = np.frombuffer(one.data, "<f4")
    return vector if dimensions is None else normalized(vector[:dimensions])


def as_base64(vector: Vector) -> str:
    """Its bytes, float32, the lowest byte first."""
    return b64encode(vector.astype("<f4").tobytes()).decode()


def tokens_of(found: Sequence[Embedded]) -> int:
    """Of all texts."""
    return sum(one.tokens for one in found)
