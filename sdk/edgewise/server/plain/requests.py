"""Requests, with llama.cpp's names."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from edgewise.embedding import MAX_TEXTS
from edgewise.server.wire_types import MAX_COUNT, JsonObject, Name, Strict, Text, TokenIds

MAX_MESSAGES = 1 << 14
MAX_TOOLS = 256
MAX_DOCUMENTS = MAX_TEXTS - 1
"""Of one query, which is embedded with them."""


class OfModel(Strict):
    """A request about one model; where only one is served, its name may be left out."""

    model: Name | None = None


class Document(Strict):
    """A document with its text."""

    text: Text


class TokenizeRequest(OfModel):
    """``POST /tokenize``. `add_special` adds what the model begins a text with."""

    content: Text
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeRequest(OfModel):
    """``POST /detokenize``."""

    tokens: TokenIds


class RerankRequest(OfModel):
    """``POST /rerank``. Documents are texts, or objects with one as `text`.

    `instruction` is beside the API: what a model that ranks is told to look for.
    """

    query: Text
    instruction: Text | None = None
    documents: Annotated[list[Text | Document], Field(min_length=1, max_length=MAX_DOCUMENTS)]
    top_n: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    return_documents: bool | None = None

    @property
    def texts(self) -> list[str]:
        """Of the documents."""
        return [one if isinstance(one, str) else one.text for one in self.documents]


class TemplateRequest(OfModel):
    """``POST /apply-template``. The engine checks messages and tools."""

    messages: Annotated[list[JsonObject], Field(max_length=MAX_MESSAGES)]
    tools: Annotated[list[JsonObject], Field(max_length=MAX_TOOLS)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
