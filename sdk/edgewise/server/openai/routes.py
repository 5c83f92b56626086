"""The routes of OpenAI's API."""

from __future__ import annotations

from starlette.routing import Route

from edgewise.hosting.base import Models
from edgewise.server.failing import Endpoint, answering
from edgewise.server.openai.failing import failed
from edgewise.server.openai.models import ModelsApi


def routes(models: Models) -> list[Route]:
    """The routes, all of which answer errors in OpenAI's words."""
    listed = ModelsApi(models)
    table: list[tuple[str, str, Endpoint]] = [
        ("GET", "/v1/models", listed.listing),
        ("GET", "/v1/models/{name:path}", listed.one),
    ]
    return [
        Route(path, answering(endpoint, failed), methods=[method])
        for method, path, endpoint in table
    ]
