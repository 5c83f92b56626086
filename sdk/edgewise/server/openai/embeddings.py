"""``POST /v1/embeddings``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Embedded, Hosted, Models
from edgewise.server.openai.embeddings_request import EmbeddingRequest
from edgewise.server.reading import read_body
from edgewise.server.streaming import json_list, while_there
from edgewise.server.vectors import as_base64, check_vectors, tokens_of, vector_of


class EmbeddingsApi:
    """Gives vectors of texts."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def create(self, request: Request) -> Response:
        """The vectors, of length 1, in the order of the texts."""
        asked = await read_body(request, EmbeddingRequest)
        found = await while_there(request, self._found(asked))
        return json_list(_around(asked, found), "data", _written(asked, found))

    async def _found(self, asked: EmbeddingRequest) -> list[Embedded]:
        return await _found(await self._models.get(asked.model), asked)


async def answered(hosted: Hosted, asked: EmbeddingRequest) -> dict[str, Any]:
    """The whole answer of a model."""
    found = await _found(hosted, asked)
    return {**_around(asked, found), "data": list(_written(asked, found))}


async def _found(hosted: Hosted, asked: EmbeddingRequest) -> list[Embedded]:
    check_vectors(hosted.facts, len(asked.texts), asked.dimensions)
    return await hosted.embed(asked.texts, pooling=asked.pooling, prompt=asked.prompt_name)


def _around(asked: EmbeddingRequest, found: Sequence[Embedded]) -> dict[str, Any]:
    """All of an answer but its vectors."""
    tokens = tokens_of(found)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": asked.model, "usage": usage}


def _written(asked: EmbeddingRequest, found: Sequence[Embedded]) -> Iterator[dict[str, Any]]:
    for index, one in enumerate(found):
        vector = vector_of(one, asked.dimensions)
        coded = as_base64(vector) if asked.encoding_format == "base64" else vector.tolist()
        yield {"object": "embedding", "index": index, "embedding": coded}
