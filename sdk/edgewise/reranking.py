"""Documents in the order of how near they are to a query, with a session of this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.embedding import Vectors, normalized
from edgewise.ranking import asked_ids, best_first, between, cosines, probabilities
from edgewise.session import Session
from edgewise_runtime.engine.pooling import Pooling
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.vectors import AFTER, BEFORE


@dataclass(frozen=True)
class Ranked:
    """A document as `edgewise.Engine.rerank` ranks it.

    Attributes:
        index: of the documents that were given.
        score: the higher the nearer: a probability, from 0 to 1, with a model that was trained to
            rank; with others a cosine, from -1 to 1.
    """

    index: int
    score: float


def texts_to_embed(
    session: Session, query: Any, documents: Any, instruction: Any
) -> tuple[list[Any], Pooling | None]:
    """What is embedded to rank documents, and how it is pooled; None as the model says.

    Raises:
        InputError: ``input.texts`` for what is no text, ``input.instruction`` for one that the
            model would not see; what `between` and `asked_ids` do.
    """
    documents = [documents] if isinstance(documents, str) else list(documents)
    for text in (query, *documents, *([] if instruction is None else [instruction])):
        if not isinstance(text, str):
            raise InputError(
                f"{shorten(text)} is no text to rank.",
                remedy="Give the query, the instruction and each document as a str.",
                code="input.texts",
            )
    if session.texts.vectors.direction is None:
        if instruction is not None:
            raise InputError(
                "An instruction is for models that were trained to rank; this one was not.",
                remedy="Leave it out, or load such a model, as Qwen3-Reranker is.",
                code="input.instruction",
            )
        return [query, *documents], None
    encode = session.tokenizer.encode
    before, after = (encode(text, add_special_tokens=False) for text in (BEFORE, AFTER))
    pairs = (
        encode(between(query, document, instruction), add_special_tokens=False)
        for document in documents
    )
    return [asked_ids(before, pair, after, session.context) for pair in pairs], "last"


def ranked(session: Session, vectors: Vectors) -> list[Ranked]:
    """The documents, the nearest first; of equals the first is first.

    Args:
        vectors: of what `texts_to_embed` gave, float32 [texts, hidden].
    """
    direction = session.texts.vectors.direction
    scores: Sequence[float] = (
        cosines(normalized(vectors))
        if direction is None
        else probabilities(vectors, direction).tolist()
    )
    return [Ranked(nth, scores[nth]) for nth in best_first(scores)]
