"""The shapes of answers, for whoever reads ``/openapi.json``; the tests hold answers to them.

Of an answer that comes in lines, each is one of these without what only the last has.
"""

from __future__ import annotations

from typing import Any, Literal

from edgewise.server.wire_types import Shape


class ErrorAnswer(Shape):
    """The body of every error; `code` is ours."""

    error: str
    code: str


class LikelyToken(Shape):
    """A token and its log-probability in nats."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenToken(LikelyToken):
    """A token that came, and where they were asked for the likeliest in its place."""

    top_logprobs: list[LikelyToken] | None = None


class FunctionSaid(Shape):
    """A function and its arguments."""

    index: int
    name: str
    arguments: dict[str, Any]


class ToolCallSaid(Shape):
    """A call of a tool."""

    id: str
    function: FunctionSaid


class MessageSaid(Shape):
    """An answer as a message."""

    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[ToolCallSaid] | None = None


class Answer(Shape):
    """What all answers have: times in nanoseconds, and tokens where the model was asked."""

    model: str
    created_at: str
    done: Literal[True]
    done_reason: str
    total_duration: int
    load_duration: int
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    logprobs: list[ChosenToken] | None = None


class ChatAnswer(Answer):
    """The next turn of a conversation."""

    message: MessageSaid


class GenerateAnswer(Answer):
    """What follows a prompt; `context` goes on from it."""

    response: str
    thinking: str | None = None
    context: list[int] | None = None


class EmbedAnswer(Shape):
    """Vectors of texts."""

    model: str
    total_duration: int
    load_duration: int
    prompt_eval_count: int
    embeddings: list[list[float]]


class EmbeddingsAnswer(Shape):
    """The vector of a text; nothing of none."""

    embedding: list[float]


class Details(Shape):
    """What lists say of a model; empty texts of one that is not compiled yet."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class ModelListed(Shape):
    """A model of the list."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: Details


class ModelsListed(Shape):
    """All models."""

    models: list[ModelListed]


class ModelRunning(Shape):
    """A model in memory."""

    name: str
    model: str
    size: int
    digest: str
    details: Details
    expires_at: str
    size_vram: int
    context_length: int


class ModelsRunning(Shape):
    """Those in memory."""

    models: list[ModelRunning]


class ModelShown(Shape):
    """All that is known of a model."""

    parameters: str
    template: str
    details: Details
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class VersionSaid(Shape):
    """Of the server."""

    version: str


class PullAnswer(Shape):
    """How far fetching is; bytes where some are to come."""

    status: str
    digest: str | None = None
    total: int | None = None
    completed: int | None = None
