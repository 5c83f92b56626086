"""Anthropic's API."""

from __future__ import annotations

from edgewise.hosting.base import Models
from edgewise.server.anthropic.answers import (
    CountAnswer,
    ErrorAnswer,
    MessageAnswer,
    ModelPage,
    ModelSaid,
)
from edgewise.server.anthropic.failing import failed
from edgewise.server.anthropic.messages import MessagesApi
from edgewise.server.anthropic.models import ModelsApi, PageQuery
from edgewise.server.anthropic.request import CountRequest, MessagesRequest
from edgewise.server.api import Api, Operation
from edgewise.server.streaming import SSE

VERSION = "anthropic-version"
"""The header that all requests of this API have, and none of others."""


def api(models: Models) -> Api:
    """The API over these models."""
    messages, listed = MessagesApi(models), ModelsApi(models)
    operations = (
        Operation(
            method="POST",
            path="/v1/messages",
            summary="The next turn of a conversation.",
            endpoint=messages.create,
            answered=MessageAnswer,
            asked=MessagesRequest,
            text=SSE,
        ),
        Operation(
            method="POST",
            path="/v1/messages/count_tokens",
            summary="How many tokens a conversation has.",
            endpoint=messages.count,
            answered=CountAnswer,
            asked=CountRequest,
        ),
        Operation(
            method="GET",
            path="/v1/models",
            summary="A page of the models.",
            endpoint=listed.listing,
            answered=ModelPage,
            query=PageQuery,
            only_with=VERSION,
        ),
        Operation(
            method="GET",
            path="/v1/models/{name:rest}",
            summary="A model.",
            endpoint=listed.one,
            answered=ModelSaid,
            only_with=VERSION,
        ),
    )
    return Api("anthropic", failed, ErrorAnswer, operations)
