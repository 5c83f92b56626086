"""The routes that llama.cpp's server has beside OpenAI's API."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from edgewise.hosting.base import Models
from edgewise.server.failing import Endpoint, answering, headers_of, status_of
from edgewise.server.plain.reranking import RerankingApi
from edgewise.server.plain.tokens import TokensApi
from edgewise.server.writing import json_response
from edgewise_runtime.errors import EdgewiseError

RERANKING = ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    503: "unavailable_error",
}
"""What llama.cpp's server calls errors, by status; others are of the server."""


def routes(models: Models) -> list[Route]:
    """The routes, all of which answer errors in llama.cpp's words."""
    tokens, reranking = TokensApi(models), RerankingApi(models)
    table: list[tuple[str, Endpoint]] = [
        ("/tokenize", tokens.tokenize),
        ("/detokenize", tokens.detokenize),
        ("/apply-template", tokens.apply_template),
        *((path, reranking.rerank) for path in RERANKING),
    ]
    return [Route(path, answering(endpoint, failed), methods=["POST"]) for path, endpoint in table]


def body_of(error: EdgewiseError) -> dict[str, Any]:
    """The body of an error."""
    status = status_of(error)
    usual = "invalid_request_error" if status < 500 else "server_error"
    kind = TYPES.get(status, usual)
    return {"error": {"code": status, "message": error.said, "type": kind}}


def failed(error: EdgewiseError) -> Response:
    """The response of an error."""
    return json_response(body_of(error), status_of(error), headers_of(error))
