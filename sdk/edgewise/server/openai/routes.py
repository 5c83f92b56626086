"""The routes of OpenAI's API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgewise.hosting.base import Models
from edgewise.server.failing import Endpoint, answering
from edgewise.server.openai.chat import ChatApi
from edgewise.server.openai.completions import CompletionsApi
from edgewise.server.openai.embeddings import embeddings
from edgewise.server.openai.failing import failed
from edgewise.server.openai.models import ModelsApi
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

METHODS = ("GET", "POST", "DELETE")


def routes(models: Models) -> list[Route]:
    """The routes, all of which answer errors in OpenAI's words."""
    listed = ModelsApi(models)
    table: list[tuple[str, str, Endpoint]] = [
        ("POST", "/v1/chat/completions", ChatApi(models).create),
        ("POST", "/v1/completions", CompletionsApi(models).create),
        ("POST", "/v1/embeddings", embeddings),
        ("GET", "/v1/models", listed.listing),
        ("GET", "/v1/models/{name:path}", listed.one),
    ]
    return [
        Route(path, answering(endpoint, failed), methods=[method])
        for method, path, endpoint in table
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
        remedy="There are chat/completions, completions, responses and models.",
        code="input.path",
    )
