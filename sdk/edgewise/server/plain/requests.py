"""Requests, with llama.cpp's names."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from edgewise.server.wire_types import JsonObject, Name, Strict, Text, TokenIds

MAX_MESSAGES = 1 << 14
MAX_TOOLS = 256


class OfModel(Strict):
    """A request about one model; where only one is served, its name may be left out."""

    model: Name | None = None


class TokenizeRequest(OfModel):
    """``POST /tokenize``. `add_special` adds what the model begins a text with."""

    content: Text
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeRequest(OfModel):
    """``POST /detokenize``."""

    tokens: TokenIds


class TemplateRequest(OfModel):
    """``POST /apply-template``. The engine checks messages and tools."""

    messages: Annotated[list[JsonObject], Field(max_length=MAX_MESSAGES)]
    tools: Annotated[list[JsonObject], Field(max_length=MAX_TOOLS)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
