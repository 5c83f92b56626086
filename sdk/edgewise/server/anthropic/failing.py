"""Errors as Anthropic's API says them."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from edgewise.server.failing import headers_of, status_of
from edgewise.server.operations.entry import CURRENT
from edgewise.server.writing import json_response, new_id, written
from edgewise_runtime.errors import EdgewiseError

STATUSES = {"engine.busy": 529, "engine.memory": 529}
"""Those that clients of this API know by a status of its own."""

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    503: "overloaded_error",
    529: "overloaded_error",
}
"""By status; others below 500 are ``invalid_request_error``, and from there ``api_error``."""


def request_id() -> str:
    """The id of the request that is being answered."""
    entry = CURRENT.get()
    return new_id("req_") if entry is None else entry.id


def named() -> dict[str, str]:
    """The header by which clients of this API name a request."""
    return {"request-id": request_id()}


def body_of(error: EdgewiseError) -> dict[str, Any]:
    """The body of an error: what happened and what to do, with our code in the end."""
    status = _status(error)
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": str(error)},
        "request_id": request_id(),
    }


def failed(error: EdgewiseError) -> Response:
    """The response of an error."""
    body = body_of(error)
    headers = {**headers_of(error), "request-id": body["request_id"]}
    return json_response(body, _status(error), headers)


def failed_frame(error: EdgewiseError) -> str:
    """The last event of a stream that an error ended."""
    return f"event: error\ndata: {written(body_of(error))}\n\n"


def _status(error: EdgewiseError) -> int:
    return STATUSES.get(error.code, status_of(error))
