"""The shapes of answers, for whoever reads ``/openapi.json``; the tests hold answers to them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from edgewise.server.wire_types import Shape


class ErrorSaid(Shape):
    """What is wrong."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str


class ErrorAnswer(Shape):
    """The body of every error."""

    error: ErrorSaid


class CachedTokens(Shape):
    """Tokens of the prompt that were not computed again."""

    cached_tokens: int


class UsageSaid(Shape):
    """Tokens in and out."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class LikelyToken(Shape):
    """A token and its log-probability in nats."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenToken(LikelyToken):
    """A token that came, and the likeliest in its place."""

    top_logprobs: list[LikelyToken]


class ChatLogprobs(Shape):
    """How likely an answer's tokens were."""

    content: list[ChosenToken]
    refusal: None


class FunctionSaid(Shape):
    """A tool's name, and its arguments as the text of a JSON object."""

    name: str
    arguments: str


class ToolCallSaid(Shape):
    """A call of a tool."""

    id: str
    type: Literal["function"]
    function: FunctionSaid


class MessageSaid(Shape):
    """An answer as a message."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallSaid] | None = None


class ChatChoice(Shape):
    """One answer to a conversation."""

    index: int
    message: MessageSaid
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class Answer(Shape):
    """What all answers have."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    usage: UsageSaid


class ChatAnswer(Answer):
    """A whole answer of chat completions."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]


class TextLogprobs(Shape):
    """How likely a text's tokens were."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(Shape):
    """One continuation of a text."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class TextAnswer(Answer):
    """A whole answer of completions."""

    object: Literal["text_completion"]
    choices: list[TextChoice]


class EmbeddingSaid(Shape):
    """A text's vector: numbers, or in base64 the bytes of float32, the lowest first."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(Shape):
    """What vectors took."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingAnswer(Shape):
    """Vectors of texts."""

    object: Literal["list"]
    model: str
    usage: EmbeddingUsage
    data: list[EmbeddingSaid]


class ModelSaid(Shape):
    """A model; what follows `owned_by` is not said of a checkpoint that was not compiled yet, and
    `program` of one that is loaded only."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    context_length: int | None = None
    max_model_len: int | None = None
    family: str | None = None
    parameters: int | None = None
    quantization: str | None = None
    size: int | None = None
    vocabulary: int | None = None
    capabilities: list[str] | None = None
    program: str | None = None


class ModelList(Shape):
    """All models."""

    object: Literal["list"]
    data: list[ModelSaid]


class ResponseAnswer(BaseModel):
    """A whole answer of responses."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete", "in_progress"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None


class DeletedResponse(Shape):
    """A response that is no longer kept."""

    id: str
    object: Literal["response"]
    deleted: bool
