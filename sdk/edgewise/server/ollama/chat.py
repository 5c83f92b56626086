"""``POST /api/chat``: the next turn of a conversation."""

from __future__ import annotations

from typing import Any

from edgewise.hosting.base import Ask, Facts
from edgewise.server.ollama.answers import Part, calls_of
from edgewise.server.ollama.messages import messages_of
from edgewise.server.ollama.options import Options, options_of
from edgewise.server.ollama.requests import ChatRequest

WHERE_LONG = {None: "drop", True: "drop", False: "error"}
"""What becomes of a conversation that is too long, by `truncate`."""


def chat_of(request: ChatRequest, facts: Facts) -> tuple[Ask, Options]:
    """What is asked of a model, and with which options.

    Raises InputError and UnsupportedError for what there is not.
    """
    options = options_of(request, facts)
    given = {**options.given, "context_policy": WHERE_LONG[request.truncate]}
    return Ask(
        messages=messages_of(request.messages or ()), tools=request.tools or None, options=given
    ), options


def chat_part(part: Part) -> dict[str, Any]:
    """A part of an answer as a message."""
    message: dict[str, Any] = {"role": "assistant", "content": part.text}
    if part.thought:
        message["thinking"] = part.thought
    if part.calls:
        message["tool_calls"] = calls_of(part.calls)
    return {"message": message}
