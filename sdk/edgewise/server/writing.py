"""JSON as it is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from starlette.responses import Response


def written(value: Any) -> str:
    """One line of JSON, all of it ASCII: what a model writes may be anything."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def frame(value: Any) -> str:
    """One event of a stream."""
    return f"data: {written(value)}\n\n"


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A response of JSON, which nobody keeps."""
    return Response(
        written(value),
        status,
        {"Cache-Control": "no-store", **(headers or {})},
        media_type="application/json",
    )


def new_id(prefix: str) -> str:
    """An id that nobody guesses, such as ``chatcmpl-…``."""
    return f"{prefix}{token_hex(12)}"
