"""How near a document is to a query, by a model that was trained to say "yes" or "no" to that.

The text around them is that of Qwen3-Reranker (`format.vectors`), and the score the probability of
"yes" against "no" after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.vectors import BETWEEN, INSTRUCTION

CONTROL = ("<|im_start|>", "<|im_end|>", "<think>", "</think>")
"""What of the texts around them no query and no document may have."""


def between(query: str, document: str, instruction: str | None = None) -> str:
    """The text between `vectors.BEFORE` and `AFTER`.

    Raises:
        InputError: ``input.special_tokens`` for one that would end it early.
    """
    asked = INSTRUCTION if instruction is None else instruction
    for token in CONTROL:
        if any(token in text for text in (query, document, asked)):
            raise InputError(
                f"A text that is to be ranked has {token} in it.",
                remedy="Leave it out: the model would take what follows for something else.",
                code="input.special_tokens",
            )
    return BETWEEN.format(instruction=asked, query=query, document=document)


def asked_ids(
    before: Sequence[int], pair: Sequence[int], after: Sequence[int], context: int
) -> list[int]:
    """The tokens to embed; what the context does not hold of a document is left out."""
    room = context - len(before) - len(after)
    if room < 1:
        raise InputError(
            f"A context of {context} tokens has no room for what is said around a document.",
            remedy="Load the model with more context.",
            code="input.context",
        )
    return [*before, *pair[:room], *after]


def best_first(scores: Sequence[float]) -> list[int]:
    """The numbers of documents, that with the highest score first; of equals the first is first."""
    return sorted(range(len(scores)), key=lambda nth: -scores[nth])


def cosines(vectors: npt.NDArray[np.float32]) -> list[float]:
    """Of the angle between the first vector and each other, all of length 1.

    Args:
        vectors: float32 [texts, hidden].
    """
    query, *documents = vectors.astype(np.float64)
    return [float(query @ one) for one in documents]


def probabilities(
    states: npt.NDArray[np.float32], direction: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Of "yes" against "no": float64 [texts].

    Args:
        states: the last ones, float32 [texts, hidden].
        direction: see `VectorRules.direction`.
    """
    difference = states.astype(np.float64) @ direction.astype(np.float64)
    found: npt.NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(difference, -700, 700)))
    return found
