"""What llama.cpp's server has beside OpenAI's API."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from edgewise.hosting.base import Models
from edgewise.server.api import Api, Operation
from edgewise.server.failing import headers_of, status_of
from edgewise.server.plain.requests import (
    DetokenizeRequest,
    RerankRequest,
    TemplateRequest,
    TokenizeRequest,
)
from edgewise.server.plain.reranking import RerankingApi
from edgewise.server.plain.shapes import (
    DetokenizeAnswer,
    ErrorAnswer,
    RerankAnswer,
    TemplateAnswer,
    TokenizeAnswer,
)
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


def api(models: Models) -> Api:
    """The API over these models."""
    tokens, reranking = TokensApi(models), RerankingApi(models)
    operations = (
        Operation(
            method="POST",
            path="/tokenize",
            summary="The tokens of a text.",
            endpoint=tokens.tokenize,
            answered=TokenizeAnswer,
            asked=TokenizeRequest,
        ),
        Operation(
            method="POST",
            path="/detokenize",
            summary="The text of tokens.",
            endpoint=tokens.detokenize,
            answered=DetokenizeAnswer,
            asked=DetokenizeRequest,
        ),
        Operation(
            method="POST",
            path="/apply-template",
            summary="A conversation as text.",
            endpoint=tokens.apply_template,
            answered=TemplateAnswer,
            asked=TemplateRequest,
        ),
        *(
            Operation(
                method="POST",
                path=path,
                summary="Documents, the nearest first.",
                endpoint=reranking.rerank,
                answered=RerankAnswer,
                asked=RerankRequest,
            )
            for path in RERANKING
        ),
    )
    return Api("plain", failed, ErrorAnswer, operations)


def body_of(error: EdgewiseError) -> dict[str, Any]:
    """The body of an error."""
    status = status_of(error)
    usual = "invalid_request_error" if status < 500 else "server_error"
    kind = TYPES.get(status, usual)
    return {"error": {"code": status, "message": error.said, "type": kind}}


def failed(error: EdgewiseError) -> Response:
    """The response of an error."""
    return json_response(body_of(error), status_of(error), headers_of(error))
