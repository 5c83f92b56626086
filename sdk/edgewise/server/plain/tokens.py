"""Tokens of texts and texts of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Ask, Hosted, Models
from edgewise.server.plain.requests import (
    DetokenizeRequest,
    OfModel,
    TemplateRequest,
    TokenizeRequest,
)
from edgewise.server.reading import read_body
from edgewise.server.writing import json_response
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten

MOST_PIECES = 4096
"""Different tokens whose texts one request is told."""
MOST_LISTED = 20
_BEFORE = "a"
"""A text that pieces are decoded behind: some tokenizers take a space off what comes first."""


def name_of(asked: OfModel, names: Sequence[str]) -> str:
    """The model that is meant: the only one where none is named.

    Raises InputError ``input.model`` where there is none of that name, or nobody can tell.
    """
    if asked.model is None and len(names) == 1:
        return names[0]
    if asked.model in names:
        return str(asked.model)
    said = "No model is named" if asked.model is None else f"There is no {shorten(asked.model)}"
    raise InputError(
        f"{said}, and {len(names)} are served.",
        remedy=f"Name one as `model`: {', '.join(names[:MOST_LISTED])}.",
        code="input.model" if asked.model is not None else "input.option",
    )


async def pieces_of(hosted: Hosted, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Each token with its text; a token that is part of a character has U+FFFD for it.

    Raises InputError ``input.size`` for more than `MOST_PIECES` different tokens.
    """
    different = dict.fromkeys(ids)
    if len(different) > MOST_PIECES:
        raise InputError(
            f"The text has {len(different):,} different tokens; of {MOST_PIECES:,} the pieces are "
            "told at most.",
            remedy="Ask for parts of it, or leave out with_pieces.",
            code="input.size",
        )
    before = await hosted.tokenize(_BEFORE, special=False)
    shown = await hosted.detokenize(before)
    texts = {one: await _piece(hosted, one, before, shown) for one in different}
    return [{"id": one, "piece": texts[one]} for one in ids]


async def _piece(hosted: Hosted, token: int, before: Sequence[int], shown: str) -> str:
    text = await hosted.detokenize([*before, token])
    return text[len(shown) :] if text.startswith(shown) else await hosted.detokenize([token])


class TokensApi:
    """Tells what a model reads."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def tokenize(self, request: Request) -> Response:
        """The tokens of a text."""
        asked = await read_body(request, TokenizeRequest)
        if not asked.parse_special:
            raise UnsupportedError(
                "Special tokens that a text writes out are always read as those tokens.",
                remedy="Leave parse_special out.",
                code="unsupported.parse_special",
            )
        hosted = await self._hosted(asked)
        ids = await hosted.tokenize(asked.content, special=asked.add_special)
        return json_response({"tokens": await pieces_of(hosted, ids) if asked.with_pieces else ids})

    async def detokenize(self, request: Request) -> Response:
        """The text of tokens."""
        asked = await read_body(request, DetokenizeRequest)
        hosted = await self._hosted(asked)
        return json_response({"content": await hosted.detokenize(asked.tokens)})

    async def apply_template(self, request: Request) -> Response:
        """The text that the model's chat template makes of a conversation."""
        asked = await read_body(request, TemplateRequest)
        hosted = await self._hosted(asked)
        ask = Ask(
            messages=asked.messages,
            tools=asked.tools or None,
            variables=asked.chat_template_kwargs or None,
        )
        return json_response({"prompt": await hosted.render(ask)})

    async def _hosted(self, asked: OfModel) -> Hosted:
        return await self._models.get(name_of(asked, self._models.names()))
