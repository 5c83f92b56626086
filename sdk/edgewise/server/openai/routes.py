"""The routes of OpenAI's API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgewise.hosting.base import Models
from edgewise.server.failing import Endpoint, answering
from edgewise.server.openai.answers import (
    ChatAnswer,
    DeletedResponse,
    EmbeddingAnswer,
    ModelList,
    ModelSaid,
    ResponseAnswer,
    TextAnswer,
)
from edgewise.server.openai.chat import ChatApi
from edgewise.server.openai.chat_request import ChatRequest
from edgewise.server.openai.completions import CompletionsApi
from edgewise.server.openai.completions_request import CompletionRequest
from edgewise.server.openai.embeddings import EmbeddingsApi
from edgewise.server.openai.embeddings_request import EmbeddingRequest
from edgewise.server.openai.failing import failed
from edgewise.server.openai.models import ModelsApi
from edgewise.server.openai.openapi import Operation, serving
from edgewise.server.openai.responses.api import ResponsesApi
from edgewise.server.openai.responses.request import ResponseRequest
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

METHODS = ("GET", "POST", "DELETE")
CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
VECTORS = "/v1/embeddings"
MODEL, RESPONSE = "/v1/models/{name:path}", "/v1/responses/{name}"


def routes(models: Models) -> list[Route]:
    """The routes, all of which answer errors in OpenAI's words."""
    listed, responses = ModelsApi(models), ResponsesApi(models)
    chat, text = ChatApi(models), CompletionsApi(models)
    table: list[tuple[Operation, Endpoint]] = [
        (Operation("POST", CHAT, "A turn.", ChatAnswer, ChatRequest), chat.create),
        (
            Operation("POST", TEXT, "Texts.", TextAnswer, CompletionRequest),
            text.create,
        ),
        (
            Operation("POST", RESPONSES, "Items.", ResponseAnswer, ResponseRequest),
            responses.create,
        ),
        (Operation("GET", RESPONSE, "What was kept.", ResponseAnswer), responses.retrieve),
        (Operation("DELETE", RESPONSE, "It is gone.", DeletedResponse), responses.delete),
        (
            Operation("POST", VECTORS, "Vectors.", EmbeddingAnswer, EmbeddingRequest),
            EmbeddingsApi(models).create,
        ),
        (Operation("GET", "/v1/models", "All models.", ModelList), listed.listing),
        (Operation("GET", MODEL, "A model.", ModelSaid), listed.one),
    ]
    described = serving(operation for operation, _ in table)
    return [
        *(
            Route(one.path, answering(endpoint, failed), methods=[one.method])
            for one, endpoint in table
        ),
        Route("/openapi.json", described),
    ]


def unknown() -> list[Route]:
    """What answers under ``/v1`` where no API has a route; it comes after all of them."""
    missing = answering(_missing, failed)
    return [Route(path, missing, methods=METHODS) for path in ("/v1", "/v1/{path:path}")]


async def _missing(request: Request) -> Response:
    """Raise InputError ``input.path``."""
    asked = f"{request.method} {request.url.path}"
    raise InputError(
        f"There is no {shorten(asked, 200)[1:-1]} here.",
        remedy="There are chat/completions, completions, responses, embeddings and models.",
        code="input.path",
    )
