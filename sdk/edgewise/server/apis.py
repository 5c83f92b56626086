"""The APIs there are. One more is a folder with an `api`, and a line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from edgewise.hosting.base import Models
from edgewise.hosting.tabs import Tabs
from edgewise.server.anthropic.failing import failed as failed_of_anthropic
from edgewise.server.anthropic.routes import VERSION
from edgewise.server.anthropic.routes import api as anthropic
from edgewise.server.api import Api, ApiRoute
from edgewise.server.failing import failed
from edgewise.server.ollama.routes import api as ollama
from edgewise.server.openai.failing import failed as failed_of_openai
from edgewise.server.openai.routes import api as openai
from edgewise.server.openapi import PATH, serving
from edgewise.server.plain.routes import api as plain
from edgewise.server.socket.routes import API as SOCKET
from edgewise.server.socket.routes import routes as socket
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

METHODS = ("GET", "POST", "DELETE")


def apis(models: Models, *, allow_pull: bool = False) -> list[Api]:
    """All of them, over the same models. Where two have one path, the first answers; Anthropic's
    takes only requests that say that they are for it.

    Args:
        allow_pull: clients of Ollama's may have models fetched from the hub.
    """
    return [anthropic(models), openai(models), plain(models), ollama(models, allow_pull=allow_pull)]


def api_routes(
    models: Models,
    *,
    allow_pull: bool = False,
    tabs: Mapping[str, Tabs] | None = None,
    beside: Sequence[Api] = (),
) -> list[BaseRoute]:
    """The routes of all APIs over the same models, of WebSockets, and of the APIs' document.

    Args:
        allow_pull: clients of Ollama's may have models fetched from the hub.
        tabs: of the models that browsers may lend their GPU to, by name.
        beside: others that the document has, whose routes are here, too.
    """
    made = [*apis(models, allow_pull=allow_pull), *beside]
    return [
        *(route for api in made for route in api.routes()),
        *socket(models, tabs=tabs),
        ApiRoute(PATH, serving([*made, SOCKET]), failed, ("GET",)),
        *_unknown(),
    ]


def _unknown() -> list[ApiRoute]:
    """What answers under ``/v1`` where no API has a route; it comes after all of them."""
    paths = ("/v1", "/v1/{path:rest}")
    return [
        *(ApiRoute(path, _missing, failed_of_anthropic, METHODS, VERSION) for path in paths),
        *(ApiRoute(path, _missing, failed_of_openai, METHODS) for path in paths),
    ]


async def _missing(request: Request) -> Response:
    """Raise InputError ``input.path``."""
    asked = f"{request.method} {request.url.path}"
    raise InputError(
        f"There is no {shorten(asked, 200)[1:-1]} here.",
        remedy=f"{PATH} has all that there is.",
        code="input.path",
    )
