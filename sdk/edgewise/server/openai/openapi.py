"""``GET /openapi.json``: this API for programs, made of the models that read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from edgewise.server.openai.answers import ErrorAnswer
from edgewise.server.writing import json_response
from edgewise_runtime.installed import VERSION

_PLACE = "#/components/schemas/{model}"
_ERRORS = ("400", "401", "404", "408", "413", "415", "500", "502", "503")
"""Of which some are said by what every request passes, in plain text."""


@dataclass(frozen=True)
class Operation:
    """A route of the API.

    Attributes:
        answered: the shape of its answer; None where there is never one.
        asked: what its body is read as, which may ask for a stream; None where it has none.
    """

    method: str
    path: str
    summary: str
    answered: type[BaseModel] | None
    asked: type[BaseModel] | None = None


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these operations."""
    listed = list(operations)
    named = {model for one in listed for model in (one.asked, one.answered) if model} | {
        ErrorAnswer
    }
    ordered = sorted(named, key=lambda model: model.__name__)
    _, found = models_json_schema([(model, "validation") for model in ordered], ref_template=_PLACE)
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        path = one.path.replace(":path}", "}")
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": "edgewise serve: OpenAI's API", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": found.get("$defs", {}),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def serving(operations: Iterable[Operation]) -> Any:
    """The endpoint that answers with their document."""
    written = document(operations)

    async def answer(request: Request) -> Response:
        return json_response(written)

    return answer


def _operation(one: Operation, path: str) -> dict[str, Any]:
    responses = {status: _said("An error.", ErrorAnswer, "text/plain") for status in _ERRORS}
    if one.answered is not None:
        kind = "text/event-stream" if one.asked else None
        responses["200"] = _said(one.summary, one.answered, kind)
    described: dict[str, Any] = {
        "summary": one.summary,
        "operationId": f"{one.method.lower()}{path.replace('/', '_')}",
        "responses": responses,
    }
    if "{" in path:
        name = path.partition("{")[2].partition("}")[0]
        where = {"name": name, "in": "path", "required": True}
        described["parameters"] = [{**where, "schema": {"type": "string", "minLength": 1}}]
    if one.asked is not None:
        content = {"application/json": {"schema": _of(one.asked)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _said(what: str, model: type[BaseModel], text: str | None) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": _of(model)}}
    if text is not None:
        content[text] = {"schema": {"type": "string"}}
    return {"description": what, "content": content}


def _of(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _PLACE.format(model=model.__name__)}
