"""What Ollama does and this server does not, by name."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from edgewise.server.failing import Endpoint
from edgewise_runtime.errors import UnsupportedError

_COMPILE = "Compile a model with `edgewise compile`, and name it to `edgewise serve`."

REFUSED: dict[str, tuple[tuple[str, ...], tuple[str, str, str]]] = {
    "/api/create": (("POST",), ("create", "Models are not made over the network.", _COMPILE)),
    "/api/copy": (
        ("POST",),
        ("copy", "Models are not copied over the network.", "Copy the bundle's folder."),
    ),
    "/api/push": (
        ("POST",),
        ("push", "Models are not sent anywhere.", "Upload the bundle with the hub's own tools."),
    ),
    "/api/delete": (
        ("DELETE",),
        ("delete", "Models are not deleted over the network.", "Use `edgewise rm`."),
    ),
    "/api/blobs/{digest}": (
        ("HEAD", "POST"),
        ("blobs", "Files of models are not taken over the network.", _COMPILE),
    ),
}
"""Paths, their methods, and of the error the end of its code, what it says and its remedy."""


def refusing(code: str, why: str, remedy: str) -> Endpoint:
    """An endpoint that says so: UnsupportedError ``unsupported.CODE``."""

    async def refuse(request: Request) -> Response:
        raise UnsupportedError(why, remedy=remedy, code=f"unsupported.{code}")

    return refuse
