"""Ollama's API."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import Response

from edgewise.hosting.base import Models
from edgewise.server.api import Api, Operation
from edgewise.server.failing import headers_of, status_of
from edgewise.server.ollama.answering import AnsweringApi
from edgewise.server.ollama.answers import error_of
from edgewise.server.ollama.embedding import EmbeddingApi, EmbeddingsRequest, EmbedRequest
from edgewise.server.ollama.models import ModelsApi
from edgewise.server.ollama.pulling import PullApi
from edgewise.server.ollama.refusing import REFUSED, refusing
from edgewise.server.ollama.requests import ChatRequest, GenerateRequest, Named, PullRequest
from edgewise.server.ollama.shapes import (
    ChatAnswer,
    EmbedAnswer,
    EmbeddingsAnswer,
    ErrorAnswer,
    GenerateAnswer,
    ModelShown,
    ModelsListed,
    ModelsRunning,
    PullAnswer,
    VersionSaid,
)
from edgewise.server.streaming import NDJSON
from edgewise.server.writing import json_response
from edgewise_runtime.errors import EdgewiseError


def api(models: Models, *, allow_pull: bool = False) -> Api:
    """The API over these models.

    Args:
        allow_pull: clients may have models fetched from the hub.
    """
    asked, listed, pulled = AnsweringApi(models), ModelsApi(models), PullApi(allowed=allow_pull)
    embedded = EmbeddingApi(models)
    operations = (
        Operation(
            method="POST",
            path="/api/chat",
            summary="The next turn of a conversation.",
            endpoint=asked.chat,
            answered=ChatAnswer,
            asked=ChatRequest,
            text=NDJSON,
        ),
        Operation(
            method="POST",
            path="/api/generate",
            summary="What follows a prompt.",
            endpoint=asked.generate,
            answered=GenerateAnswer,
            asked=GenerateRequest,
            text=NDJSON,
        ),
        Operation(
            method="POST",
            path="/api/embed",
            summary="Vectors of texts.",
            endpoint=embedded.embed,
            answered=EmbedAnswer,
            asked=EmbedRequest,
        ),
        Operation(
            method="POST",
            path="/api/embeddings",
            summary="The vector of a text.",
            endpoint=embedded.embeddings,
            answered=EmbeddingsAnswer,
            asked=EmbeddingsRequest,
        ),
        Operation(
            method="GET",
            path="/api/tags",
            summary="All models.",
            endpoint=listed.tags,
            answered=ModelsListed,
        ),
        Operation(
            method="POST",
            path="/api/show",
            summary="What is known of a model.",
            endpoint=listed.show,
            answered=ModelShown,
            asked=Named,
        ),
        Operation(
            method="GET",
            path="/api/ps",
            summary="The models in memory.",
            endpoint=listed.running,
            answered=ModelsRunning,
        ),
        Operation(
            method="GET",
            path="/api/version",
            summary="The server's version.",
            endpoint=listed.version,
            answered=VersionSaid,
        ),
        Operation(
            method="POST",
            path="/api/pull",
            summary="A model is fetched from the hub, where that is allowed.",
            endpoint=pulled.pull,
            answered=PullAnswer,
            asked=PullRequest,
            text=NDJSON,
        ),
        *_refused(),
    )
    return Api("ollama", failed, ErrorAnswer, operations)


def failed(error: EdgewiseError) -> Response:
    """The response of an error."""
    return json_response(error_of(error), status_of(error), headers_of(error))


def _refused() -> Iterator[Operation]:
    for path, (methods, (code, why, remedy)) in REFUSED.items():
        for method in methods:
            endpoint = refusing(code, why, remedy)
            yield Operation(method=method, path=path, summary=why, endpoint=endpoint)
