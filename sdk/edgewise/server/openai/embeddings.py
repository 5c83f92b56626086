"""``POST /v1/embeddings``: refused until a compiled program gives hidden states."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from edgewise_runtime.errors import UnsupportedError


async def embeddings(request: Request) -> Response:
    """Raise UnsupportedError ``unsupported.embeddings``."""
    raise UnsupportedError(
        "There are no embeddings: no compiled program gives hidden states.",
        remedy="Ask a server of an embedding model.",
        code="unsupported.embeddings",
    )
