"""``POST /rerank``: documents in the order of how near they are to a query.

By the probability of "yes" against "no" with a model that was trained to say it of a document
(`edgewise.ranking`), and by the angle between vectors with all others.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Hosted, Models
from edgewise.ranking import asked_ids, best_first, between, cosines, probabilities
from edgewise.server.plain.requests import RerankRequest
from edgewise.server.plain.tokens import name_of
from edgewise.server.reading import read_body
from edgewise.server.streaming import while_there
from edgewise.server.vectors import check_vectors, tokens_of, vector_of
from edgewise.server.writing import json_response
from edgewise_runtime.format.vectors import AFTER, BEFORE


class RerankingApi:
    """Puts documents in order."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def rerank(self, request: Request) -> Response:
        """The documents that are nearest, best first; of equals the first is first."""
        asked = await read_body(request, RerankRequest)
        return json_response(await while_there(request, self._ranked(asked)))

    async def _ranked(self, asked: RerankRequest) -> dict[str, Any]:
        name = name_of(asked, self._models.names())
        hosted, texts = await self._models.get(name), asked.texts
        judges = bool(hosted.facts.ranking)
        check_vectors(hosted.facts, 1 + len(texts), None)
        scores, tokens = await (_judged if judges else _measured)(hosted, asked)
        return {
            "object": "list",
            "model": name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "results": [
                {
                    "index": nth,
                    "relevance_score": scores[nth],
                    **({"document": {"text": texts[nth]}} if asked.return_documents else {}),
                }
                for nth in best_first(scores)[: asked.top_n]
            ],
        }


async def _measured(hosted: Hosted, asked: RerankRequest) -> tuple[list[float], int]:
    """Cosines, and how many tokens were read."""
    found = await hosted.embed([asked.query, *asked.texts])
    return cosines(np.stack([vector_of(one) for one in found])), tokens_of(found)


async def _judged(hosted: Hosted, asked: RerankRequest) -> tuple[list[float], int]:
    """Probabilities of "yes", and how many tokens were read."""
    before, after = [await hosted.tokenize(text, special=False) for text in (BEFORE, AFTER)]
    prompts = []
    for document in asked.texts:
        text = between(asked.query, document, asked.instruction)
        pair = await hosted.tokenize(text, special=False)
        prompts.append(asked_ids(before, pair, after, hosted.facts.context))
    found = await hosted.embed(prompts, pooling="last", normalize=False)
    direction = np.frombuffer(b64decode(hosted.facts.ranking), "<f4")
    scores = probabilities(np.stack([vector_of(one) for one in found]), direction)
    return scores.tolist(), tokens_of(found)
