"""OpenAI's API."""

from __future__ import annotations

from edgewise.hosting.base import Models
from edgewise.server.api import Api, Operation
from edgewise.server.openai.answers import (
    ChatAnswer,
    DeletedResponse,
    EmbeddingAnswer,
    ErrorAnswer,
    ModelList,
    ModelSaid,
    ResponseAnswer,
    TextAnswer,
)
from edgewise.server.openai.chat import ChatApi
from edgewise.server.openai.chat_request import ChatRequest
from edgewise.server.openai.completions import CompletionsApi
from edgewise.server.openai.completions_request import CompletionRequest
from edgewise.server.openai.embeddings import EmbeddingsApi
from edgewise.server.openai.embeddings_request import EmbeddingRequest
from edgewise.server.openai.failing import failed
from edgewise.server.openai.models import ModelsApi
from edgewise.server.openai.responses.api import ResponsesApi
from edgewise.server.openai.responses.request import ResponseRequest
from edgewise.server.streaming import SSE

MODEL, RESPONSE = "/v1/models/{name:rest}", "/v1/responses/{name}"


def api(models: Models) -> Api:
    """The API over these models."""
    listed, responses = ModelsApi(models), ResponsesApi(models)
    chat, text, vectors = ChatApi(models), CompletionsApi(models), EmbeddingsApi(models)
    operations = (
        Operation(
            method="POST",
            path="/v1/chat/completions",
            summary="The next turn of a conversation.",
            endpoint=chat.create,
            answered=ChatAnswer,
            asked=ChatRequest,
            text=SSE,
        ),
        Operation(
            method="POST",
            path="/v1/completions",
            summary="What follows a text.",
            endpoint=text.create,
            answered=TextAnswer,
            asked=CompletionRequest,
            text=SSE,
        ),
        Operation(
            method="POST",
            path="/v1/responses",
            summary="The next items of a conversation.",
            endpoint=responses.create,
            answered=ResponseAnswer,
            asked=ResponseRequest,
            text=SSE,
        ),
        Operation(
            method="GET",
            path=RESPONSE,
            summary="A response that was kept.",
            endpoint=responses.retrieve,
            answered=ResponseAnswer,
        ),
        Operation(
            method="DELETE",
            path=RESPONSE,
            summary="A response is kept no longer.",
            endpoint=responses.delete,
            answered=DeletedResponse,
        ),
        Operation(
            method="POST",
            path="/v1/embeddings",
            summary="Vectors of texts.",
            endpoint=vectors.create,
            answered=EmbeddingAnswer,
            asked=EmbeddingRequest,
        ),
        Operation(
            method="GET",
            path="/v1/models",
            summary="All models.",
            endpoint=listed.listing,
            answered=ModelList,
        ),
        Operation(
            method="GET", path=MODEL, summary="A model.", endpoint=listed.one, answered=ModelSaid
        ),
    )
    return Api("openai", failed, ErrorAnswer, operations)
