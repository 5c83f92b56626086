"""Requests of Ollama's API, as its clients send them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from edgewise.server.wire_types import Count, JsonObject, Name, Number, Strict, Text, TokenIds
from edgewise.unread import TEXT_ONLY
from edgewise_runtime.errors import UnsupportedError

MAX_MESSAGES = 1 << 14
MAX_CALLS = 256
MAX_IMAGES = 64


class Function(Strict):
    """What a call calls; `arguments` is an object, of which the engine bounds the depth."""

    name: Name
    arguments: JsonObject | Text | None = None


class ToolCall(Strict):
    """A call that a model has made."""

    id: Name | None = None
    function: Function


class Message(Strict):
    """A message of a conversation."""

    role: Name
    content: Text | None = None
    thinking: Text | None = None
    images: Annotated[list[Any], Field(max_length=MAX_IMAGES)] | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=MAX_CALLS)] | None = None
    tool_name: Name | None = None
    tool_call_id: Name | None = None


class Answered(Strict):
    """What chat and generate have in common."""

    model: Name
    stream: bool | None = None
    format: JsonObject | Text | None = None
    options: JsonObject | None = None
    keep_alive: Number | Text | None = None
    think: bool | Text | None = None
    logprobs: bool | None = None
    top_logprobs: Count | None = None


class ChatRequest(Answered):
    """``POST /api/chat``. `truncate` drops the oldest turns of what is too long, as by default."""

    messages: Annotated[list[Message], Field(max_length=MAX_MESSAGES)] | None = None
    tools: Annotated[list[JsonObject], Field(max_length=MAX_CALLS)] | None = None
    truncate: bool | None = None


class GenerateRequest(Answered):
    """``POST /api/generate``. `context` is what an earlier answer ended with."""

    prompt: Text | None = None
    system: Text | None = None
    template: Text | None = None
    suffix: Text | None = None
    images: Annotated[list[Any], Field(max_length=MAX_IMAGES)] | None = None
    context: TokenIds | None = None
    raw: bool | None = None
    width: Count | None = None
    height: Count | None = None
    steps: Count | None = None


class Named(Strict):
    """A request about one model; older clients say `name` for `model`."""

    model: Name

    @model_validator(mode="before")
    @classmethod
    def _older(cls, value: Any) -> Any:
        if isinstance(value, dict) and not value.get("model") and "name" in value:
            return {**value, "model": value["name"]}
        return value


class PullRequest(Named):
    """``POST /api/pull``."""

    insecure: bool | None = None
    stream: bool | None = None


REFUSED = {
    "images": f"Images are not read: {TEXT_ONLY}.",
    "template": "A model's own chat template is used; no other is taken.",
    "suffix": "No model here fills in text between a prompt and a suffix.",
    "width": "Images are not made.",
    "height": "Images are not made.",
    "steps": "Images are not made.",
}
"""Fields that ask for what there is not; nothing in them is as good as leaving them out."""


def check_served(request: Strict) -> None:
    """Refuse a request that asks for what there is not, with UnsupportedError
    ``unsupported.FIELD``."""
    for name, why in REFUSED.items():
        if getattr(request, name, None):
            raise UnsupportedError(why, remedy=f"Leave {name} out.", code=f"unsupported.{name}")
