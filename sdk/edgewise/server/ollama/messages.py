"""Messages of Ollama's API as those of the engine, which are OpenAI's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from edgewise.server.ollama.requests import Message, ToolCall, check_served
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

ROLES = ("system", "user", "assistant", "tool")


def messages_of(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages, each call of a tool with an id and each result with that of its call.

    Ollama's clients name the tool of a result, or nothing at all: it belongs to the first call
    of that name, or else the first one, that has no result yet.

    Raises:
        InputError: ``input.messages`` for a role that there is not.
        UnsupportedError: ``unsupported.images``.
    """
    found: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    count = 0
    for message in messages:
        check_served(message)
        if message.role not in ROLES:
            raise InputError(
                f"A message's role is {shorten(message.role)}.",
                remedy=f"It is one of {', '.join(ROLES)}.",
                code="input.messages",
            )
        written: dict[str, Any] = {"role": message.role, "content": message.content or ""}
        if message.thinking and message.role == "assistant":
            written["reasoning_content"] = message.thinking
        if message.tool_calls:
            calls = [_call(one, count + number) for number, one in enumerate(message.tool_calls)]
            count += len(calls)
            waiting = list(calls)
            written["tool_calls"] = calls
        if message.role == "tool":
            written |= _result_of(message, waiting)
        found.append(written)
    return found


def _call(call: ToolCall, number: int) -> dict[str, Any]:
    # Nine letters and digits: Mistral's templates take no other ids.
    given = call.id or f"call{number:05}"
    arguments = call.function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    function = {"name": call.function.name, "arguments": text}
    return {"id": given, "type": "function", "function": function}


def _result_of(message: Message, waiting: list[dict[str, Any]]) -> dict[str, str]:
    """Which call a result is of, which then waits no more."""
    call = _awaited(message, waiting)
    if call is not None:
        waiting.remove(call)
    found = {
        "tool_call_id": message.tool_call_id or (call and call["id"]),
        "name": message.tool_name or (call and call["function"]["name"]),
    }
    return {key: value for key, value in found.items() if value}


def _awaited(message: Message, waiting: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    if message.tool_call_id:
        return next((one for one in waiting if one["id"] == message.tool_call_id), None)
    named = (one for one in waiting if one["function"]["name"] == message.tool_name)
    return next(named, None if message.tool_name else next(iter(waiting), None))
