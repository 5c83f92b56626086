"""``GET /v1/models`` in Anthropic's words, which are those of requests with their version."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Facts, Models
from edgewise.server.anthropic.failing import named
from edgewise.server.reading import read_query
from edgewise.server.wire_types import Name, Strict
from edgewise.server.writing import json_response
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

USUAL, MOST = 20, 1000
"""Models of one page."""


class PageQuery(Strict):
    """Which page of the list: what follows a model, or comes before one."""

    limit: Annotated[int, Field(ge=1, le=MOST)] = USUAL
    after_id: Name | None = None
    before_id: Name | None = None


def model_of(name: str, facts: Facts | None) -> dict[str, Any]:
    """A model as the API has it; of one that is not compiled yet only the name is known."""
    created = datetime.fromtimestamp(0 if facts is None else facts.created, UTC)
    context = None if facts is None else facts.context
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": created.isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": context,
        "max_tokens": context,
    }


class ModelsApi:
    """What is said of models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def listing(self, request: Request) -> Response:
        """A page of them."""
        asked = read_query(request, PageQuery)
        page, more = page_of(self._models.names(), asked)
        data = [model_of(name, await self._models.facts(name)) for name in page]
        ends = {"first_id": page[0] if page else None, "last_id": page[-1] if page else None}
        return json_response({"data": data, "has_more": more, **ends}, headers=named())

    async def one(self, request: Request) -> Response:
        """One of them. Raises InputError ``input.model``."""
        name = request.path_params["name"]
        names = self._models.names()
        if name not in names:
            raise InputError(
                f"There is no model {shorten(name)}.",
                remedy=f"There are {', '.join(names[:USUAL])}.",
                code="input.model",
            )
        return json_response(model_of(name, await self._models.facts(name)), headers=named())


def page_of(names: Sequence[str], asked: PageQuery) -> tuple[Sequence[str], bool]:
    """A page of the names, and whether more come in the direction that was asked for.

    Raises InputError ``input.query`` for a model that is not there, and for two directions.
    """
    if asked.before_id is not None and asked.after_id is not None:
        raise InputError(
            "There are before_id and after_id.", remedy="Send one of them.", code="input.query"
        )
    if asked.before_id is not None:
        before = names[: _at(names, asked.before_id)]
        return before[-asked.limit :], len(before) > asked.limit
    behind = names if asked.after_id is None else names[_at(names, asked.after_id) + 1 :]
    return behind[: asked.limit], len(behind) > asked.limit


def _at(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise InputError(
            f"There is no model {shorten(name)} to go on from.",
            remedy="Begin with the first page.",
            code="input.query",
        )
    return names.index(name)
