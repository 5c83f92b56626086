"""Errors as OpenAI's API says them."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from edgewise.server.failing import headers_of, status_of
from edgewise.server.reading import BodyError
from edgewise.server.writing import json_response, written
from edgewise_runtime.errors import EdgewiseError

CODES = {
    "input.context": "context_length_exceeded",
    "engine.context": "context_length_exceeded",
    "input.key": "invalid_api_key",
    "input.model": "model_not_found",
}
"""What clients test for; others have our own codes."""

PARAMS = {
    "input.content": "messages",
    "input.context": "messages",
    "input.messages": "messages",
    "input.model": "model",
    "input.n": "n",
    "input.reasoning": "reasoning_effort",
    "input.response_format": "response_format",
    "input.tool_choice": "tool_choice",
    "input.tool_calls": "messages",
    "unsupported.reasoning": "reasoning_effort",
    "unsupported.response_format": "response_format",
    "unsupported.schema": "response_format",
    "unsupported.tool": "tools",
}
"""The parameter that an error of the engine is about."""


def body_of(error: EdgewiseError) -> dict[str, Any]:
    """The body of an error: what happened and what to do, with our code in the end."""
    status = status_of(error)
    where = error.where if isinstance(error, BodyError) else PARAMS.get(error.code)
    return {
        "error": {
            "message": str(error),
            "type": "invalid_request_error" if status < 500 else "server_error",
            "param": where or None,
            "code": CODES.get(error.code, error.code),
        }
    }


def failed(error: EdgewiseError) -> Response:
    """The response of an error."""
    return json_response(body_of(error), status_of(error), headers_of(error))


def failed_frame(error: EdgewiseError) -> str:
    """The last event of a stream that an error ended."""
    return f"data: {written(body_of(error))}\n\n"
