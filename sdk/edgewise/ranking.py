"""How near a document is to a query, by a model that was trained to say "yes" or "no" to that.

The text around them is that of Qwen3-Reranker (arXiv 2506.05176), and the score the probability of
"yes" against "no" after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError

BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
CONTROL = ("<|im_start|>", "<|im_end|>", "<think>", "</think>")
"""What of these texts no query and no document may have."""
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


def between(query: str, document: str, instruction: str | None = None) -> str:
    """The text between `BEFORE` and `AFTER`.

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
    return f"<Instruct>: {asked}\n<Query>: {query}\n<Document>: {document}"


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
