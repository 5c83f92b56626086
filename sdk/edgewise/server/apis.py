"""The APIs there are. One more is a folder with a `routes`, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from starlette.routing import BaseRoute

from edgewise.hosting.base import Models
from edgewise.hosting.tabs import Tabs
from edgewise.server.anthropic.routes import routes as anthropic
from edgewise.server.ollama.routes import routes as ollama
from edgewise.server.openai.routes import routes as openai
from edgewise.server.openai.routes import unknown
from edgewise.server.plain.routes import routes as plain
from edgewise.server.socket.routes import routes as socket

Routes: TypeAlias = Callable[[Models], Sequence[BaseRoute]]

APIS: tuple[Routes, ...] = (openai, anthropic, plain)
"""What makes the routes of each that needs only the models; where two have one path, the first
answers."""


def api_routes(
    models: Models, *, allow_pull: bool = False, tabs: Mapping[str, Tabs] | None = None
) -> list[BaseRoute]:
    """The routes of all APIs over the same models.

    Args:
        allow_pull: clients of Ollama's may have models fetched from the hub.
        tabs: of the models that browsers may lend their GPU to, by name.
    """
    made: list[Routes] = [*APIS, partial(socket, tabs=tabs), partial(ollama, allow_pull=allow_pull)]
    return [*(route for make in made for route in make(models)), *unknown()]
