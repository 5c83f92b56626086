"""The routes of Ollama's API."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from edgewise.hosting.base import Models
from edgewise.server.failing import Endpoint, answering, headers_of, status_of
from edgewise.server.ollama.answering import AnsweringApi
from edgewise.server.ollama.answers import error_of
from edgewise.server.ollama.embedding import EmbeddingApi
from edgewise.server.ollama.models import ModelsApi
from edgewise.server.ollama.pulling import PullApi
from edgewise.server.ollama.refusing import REFUSED, refusing
from edgewise.server.writing import json_response
from edgewise_runtime.errors import EdgewiseError


def routes(models: Models, *, allow_pull: bool = False) -> list[Route]:
    """The routes, all of which answer errors in Ollama's words.

    Args:
        allow_pull: clients may have models fetched from the hub.
    """
    asked, listed, pulled = AnsweringApi(models), ModelsApi(models), PullApi(allowed=allow_pull)
    embedded = EmbeddingApi(models)
    table: list[tuple[str, tuple[str, ...], Endpoint]] = [
        ("/api/chat", ("POST",), asked.chat),
        ("/api/generate", ("POST",), asked.generate),
        ("/api/embed", ("POST",), embedded.embed),
        ("/api/embeddings", ("POST",), embedded.embeddings),
        ("/api/tags", ("GET",), listed.tags),
        ("/api/show", ("POST",), listed.show),
        ("/api/ps", ("GET",), listed.running),
        ("/api/version", ("GET",), listed.version),
        ("/api/pull", ("POST",), pulled.pull),
    ]
    table += [(path, methods, refusing(*said)) for path, (methods, said) in REFUSED.items()]
    return [
        Route(path, answering(endpoint, failed), methods=list(methods))
        for path, methods, endpoint in table
    ]


def failed(error: EdgewiseError) -> Response:
    """The response of an error."""
    return json_response(error_of(error), status_of(error), headers_of(error))
