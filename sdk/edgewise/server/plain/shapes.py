"""The shapes of answers, for whoever reads ``/openapi.json``; the tests hold answers to them."""

from __future__ import annotations

from typing import Literal

from edgewise.server.wire_types import Shape


class ErrorSaid(Shape):
    """What is wrong; `code` is the status."""

    code: int
    message: str
    type: Literal[
        "authentication_error",
        "invalid_request_error",
        "not_found_error",
        "server_error",
        "unavailable_error",
    ]


class ErrorAnswer(Shape):
    """The body of every error."""

    error: ErrorSaid


class Piece(Shape):
    """A token with its text."""

    id: int
    piece: str


class TokenizeAnswer(Shape):
    """The tokens of a text, with their texts where those were asked for."""

    tokens: list[int] | list[Piece]


class DetokenizeAnswer(Shape):
    """The text of tokens."""

    content: str


class TemplateAnswer(Shape):
    """A conversation as the model's chat template writes it."""

    prompt: str


class RankedText(Shape):
    """A document."""

    text: str


class Ranked(Shape):
    """A document's place in the request, and the cosine of its angle to the query."""

    index: int
    relevance_score: float
    document: RankedText | None = None


class RankedUsage(Shape):
    """What vectors took."""

    prompt_tokens: int
    total_tokens: int


class RerankAnswer(Shape):
    """Documents, the nearest first."""

    object: Literal["list"]
    model: str
    usage: RankedUsage
    results: list[Ranked]
