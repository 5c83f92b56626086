"""The routes of `edgewise serve`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from edgewise.hosting.base import Models
from edgewise.hosting.tabs import Tabs
from edgewise.server.apis import api_routes
from edgewise.server.bundles import Offer
from edgewise.server.guard import METHODS, Guard
from edgewise.server.keys import Key
from edgewise.server.operations.operations import Operations
from edgewise.server.resource import Compressed, Resource, in_memory
from edgewise.server.respond import respond

API_VERSION = 1


def make_app(
    offers: Mapping[str, Offer],
    assets: Mapping[str, Resource],
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    models: Models | None = None,
    api_key: str | None = None,
    operations: Operations | None = None,
    allow_pull: bool = False,
    tabs: Mapping[str, Tabs] | None = None,
) -> Starlette:
    """The application: bundles under ``/bundles/NAME/``, their list, the app's files, and APIs.

    Args:
        offers: by name.
        assets: by URL without the leading slash.
        hosts: names and addresses this server answers to besides those every machine has.
        origins: of other servers whose pages may use this one, as browsers send them.
        models: that the APIs answer with; without them there are none.
        api_key: that whoever uses the APIs has to send.
        operations: what the server is watched and ended by; None for what nobody looks at.
        allow_pull: whoever uses the APIs may have models fetched from the hub.
        tabs: of the models that browsers may lend their GPU to, by name.

    Raises:
        InputError: ``serve.key`` for a key that nobody could send, or that is easily guessed.
    """
    compressed = Compressed()
    listed = {
        "version": API_VERSION,
        "bundles": [offer.to_json() for offer in offers.values()],
        # Whether the app may lend its GPU, and which models it may ask.
        **({"tabs": True} if tabs else {}),
        **({"answers": models.names()} if models is not None and not tabs else {}),
    }
    listing = in_memory(json.dumps(listed).encode(), ".json")

    async def bundles(request: Request) -> Response:
        return await respond(request, listing, compressed)

    async def file(request: Request) -> Response:
        offer = offers.get(request.path_params["name"])
        found = offer.files.get(request.path_params["path"]) if offer else None
        return await respond(request, found, compressed) if found else _missing(request)

    async def asset(request: Request) -> Response:
        found = assets.get(request.path_params["path"])
        return await respond(request, found, compressed) if found else _missing(request)

    operations = operations or Operations()
    api = (
        []
        if models is None
        else api_routes(
            operations.watch(models),
            allow_pull=allow_pull,
            tabs=tabs,
            beside=[operations.api(models)],
        )
    )
    key = None if api_key is None else Key.of(api_key)
    return Starlette(
        routes=[
            *api,
            Route("/api/bundles", bundles, methods=METHODS),
            Route("/bundles/{name}/{path:path}", file, methods=METHODS),
            Route("/{path:path}", asset, methods=METHODS),
        ],
        middleware=[
            *operations.outer(),
            Middleware(Guard, hosts=tuple(hosts), origins=tuple(origins), api=tuple(api), key=key),
            *operations.inner(),
        ],
    )


def _missing(request: Request) -> Response:
    text = f"There is nothing at {request.url.path[:200]}.\n"
    return PlainTextResponse(text, status_code=404, headers={"Cache-Control": "no-store"})
