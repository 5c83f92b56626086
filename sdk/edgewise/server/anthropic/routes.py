"""The routes of Anthropic's API."""

from __future__ import annotations

from starlette.routing import Route

from edgewise.hosting.base import Models
from edgewise.server.anthropic.failing import failed
from edgewise.server.anthropic.messages import MessagesApi
from edgewise.server.failing import answering


def routes(models: Models) -> list[Route]:
    """The routes, all of which answer errors in Anthropic's words."""
    api = MessagesApi(models)
    table = {"/v1/messages": api.create, "/v1/messages/count_tokens": api.count}
    return [
        Route(path, answering(endpoint, failed), methods=["POST"])
        for path, endpoint in table.items()
    ]
