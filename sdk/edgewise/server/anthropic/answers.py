"""The shapes of answers, for whoever reads ``/openapi.json``; the tests hold answers to them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from edgewise.server.wire_types import Shape


class ErrorSaid(Shape):
    """What is wrong."""

    type: Literal[
        "api_error",
        "authentication_error",
        "invalid_request_error",
        "not_found_error",
        "overloaded_error",
        "permission_error",
        "request_too_large",
        "timeout_error",
    ]
    message: str


class ErrorAnswer(Shape):
    """The body of every error."""

    type: Literal["error"]
    error: ErrorSaid
    request_id: str


class TextSaid(Shape):
    """What is said."""

    type: Literal["text"]
    text: str


class ThoughtSaid(Shape):
    """What was thought."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class CallSaid(Shape):
    """A call of a tool."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class UsageSaid(Shape):
    """Tokens in and out; those of the cache are no input."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class MessageAnswer(Shape):
    """A whole answer."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Annotated[TextSaid | ThoughtSaid | CallSaid, Field(discriminator="type")]]
    stop_reason: Literal[
        "end_turn", "max_tokens", "model_context_window_exceeded", "stop_sequence", "tool_use"
    ]
    stop_sequence: str | None
    usage: UsageSaid


class CountAnswer(Shape):
    """How many tokens a conversation has."""

    input_tokens: int


class ModelSaid(Shape):
    """A model, with the tokens that a prompt and an answer may have together."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int | None
    max_tokens: int | None


class ModelPage(Shape):
    """Some of the models."""

    data: list[ModelSaid]
    has_more: bool
    first_id: str | None
    last_id: str | None
