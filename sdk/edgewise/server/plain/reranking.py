"""``POST /rerank``: documents in the order of how near they are to a query.

By the angle between vectors, which is what models that generate text have: none here was trained
to say what answers a query.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Models
from edgewise.server.plain.requests import RerankRequest
from edgewise.server.plain.tokens import name_of
from edgewise.server.reading import read_body
from edgewise.server.streaming import while_there
from edgewise.server.vectors import check_vectors, tokens_of, vector_of
from edgewise.server.writing import json_response


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
        check_vectors(hosted.facts, 1 + len(texts), None)
        found = await hosted.embed([asked.query, *texts])
        query, *documents = (vector_of(one).astype("f8") for one in found)
        scores = [float(query @ one) for one in documents]
        order = sorted(range(len(scores)), key=lambda nth: -scores[nth])
        tokens = tokens_of(found)
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
                for nth in order[: asked.top_n]
            ],
        }
