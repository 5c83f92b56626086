"""Vectors of texts: ``/api/embed``, and ``/api/embeddings`` of older clients."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from edgewise.embedding import MAX_TEXTS
from edgewise.hosting.base import Hosted, Models
from edgewise.server.ollama.keeping import seconds_of
from edgewise.server.ollama.names import named
from edgewise.server.ollama.options import warning_of
from edgewise.server.reading import read_body
from edgewise.server.streaming import json_list, while_there
from edgewise.server.vectors import check_vectors, tokens_of, vector_of
from edgewise.server.wire_types import Count, JsonObject, Name, Number, Strict, Text
from edgewise.server.writing import json_response


class OfVectors(Strict):
    """What both have in common. No option changes a vector."""

    model: Name
    options: JsonObject | None = None
    keep_alive: Number | Text | None = None


class EmbedRequest(OfVectors):
    """``POST /api/embed``. `truncate` leaves out what is behind the context, as by default."""

    input: Text | Annotated[list[Text], Field(max_length=MAX_TEXTS)] | None = None
    truncate: bool | None = None
    dimensions: Count | None = None

    @property
    def texts(self) -> list[str]:
        """Each text."""
        listed = [self.input] if isinstance(self.input, str) else self.input
        return [] if listed is None or listed == [""] else listed


class EmbeddingsRequest(OfVectors):
    """``POST /api/embeddings``."""

    prompt: Text | None = None


class EmbeddingApi:
    """Gives vectors; without a text the model is only loaded."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def embed(self, request: Request) -> Response:
        """Of all texts, of length 1."""
        started = perf_counter_ns()
        asked = await read_body(request, EmbedRequest)
        hosted = await self._loaded(request, asked)
        loading = perf_counter_ns() - started
        check_vectors(hosted.facts, len(asked.texts), asked.dimensions)
        truncate = asked.truncate is not False
        found = await while_there(request, hosted.embed(asked.texts, truncate=truncate))
        value = {
            "model": asked.model,
            "total_duration": perf_counter_ns() - started,
            "load_duration": loading,
            "prompt_eval_count": tokens_of(found),
        }
        vectors = (vector_of(one, asked.dimensions).tolist() for one in found)
        return json_list(value, "embeddings", vectors, headers=_ignored(asked))

    async def embeddings(self, request: Request) -> Response:
        """Of one text, as long as the model makes it."""
        asked = await read_body(request, EmbeddingsRequest)
        hosted = await self._loaded(request, asked)
        texts: Sequence[str] = [asked.prompt] if asked.prompt else []
        work = hosted.embed(texts, normalize=False, truncate=True)
        found = await while_there(request, work)
        vector = vector_of(found[0]).tolist() if found else []
        return json_response({"embedding": vector}, headers=_ignored(asked))

    async def _loaded(self, request: Request, asked: OfVectors) -> Hosted:
        name, keep_alive_s = named(asked.model, self._models.names()), seconds_of(asked.keep_alive)
        return await while_there(request, self._models.get(name, keep_alive_s=keep_alive_s))


def _ignored(asked: OfVectors) -> dict[str, str]:
    return warning_of(tuple(asked.options or ()))
