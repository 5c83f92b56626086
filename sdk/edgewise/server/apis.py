"""The APIs there are. One more is a folder with a `routes`, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute

from edgewise.hosting.base import Models
from edgewise.server.ollama.routes import routes as ollama
from edgewise.server.openai.routes import routes as openai
from edgewise.server.openai.routes import unknown
from edgewise.server.plain.routes import routes as plain

APIS: tuple[Callable[[Models], Sequence[BaseRoute]], ...] = (openai, ollama, plain)
"""What makes the routes of each; where two have one path, the first answers."""


def api_routes(models: Models) -> list[BaseRoute]:
    """The routes of all APIs over the same models."""
    return [*(route for make in APIS for route in make(models)), *unknown()]
