"""``GET /openapi.json``: the APIs for programs, made of the models that read requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from edgewise.server.api import Api, Operation
from edgewise.server.failing import STATUSES
from edgewise.server.streaming import SSE
from edgewise.server.writing import json_response
from edgewise_runtime.installed import VERSION

PATH = "/openapi.json"
_EVENT = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
_TEXTS: Mapping[str, dict[str, Any]] = {SSE: _EVENT}
"""What answers that are text are made of, by their type; others are texts."""
_ERRORS = tuple(map(str, sorted({*STATUSES.values(), 500})))


def document(apis: Iterable[Api]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these APIs. Of two with one path and method, both answers are
    described: a header tells which is asked."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for api in apis:
        places, found = _schemas(api)
        schemas |= found
        for one in api.operations:
            methods = paths.setdefault(_path(one), {})
            method, described = one.method.lower(), _operation(api, one, places)
            before = methods.get(method)
            methods[method] = described if before is None else _either(before, described)
    return {
        "openapi": "3.1.0",
        "info": {"title": "edgewise serve", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{"bearer": []}, {"key": []}, {}],
    }


def serving(apis: Iterable[Api]) -> Any:
    """The endpoint that answers with their document."""
    written = document(apis)

    async def answer(request: Request) -> Response:
        return json_response(written)

    return answer


_Places = Mapping[Any, dict[str, Any]]


def _schemas(api: Api) -> tuple[_Places, dict[str, Any]]:
    """Where the schema of each model of an API is, and all of them, under names with its own."""
    named = {api.error} | {
        model
        for one in api.operations
        for model in (one.asked, one.answered, one.query, *one.also.values())
        if model is not None
    }
    ordered = sorted(named, key=lambda model: model.__name__)
    places, found = models_json_schema(
        [(model, "validation") for model in ordered],
        ref_template=f"#/components/schemas/{api.name}.{{model}}",
    )
    defined = found.get("$defs", {})
    return (
        {model: place for (model, _), place in places.items()},
        {f"{api.name}.{name}": schema for name, schema in defined.items()},
    )


def _path(one: Operation) -> str:
    return one.path.replace(":rest}", "}")


def _operation(api: Api, one: Operation, places: _Places) -> dict[str, Any]:
    path = _path(one)
    failed = _said("An error.", places[api.error])
    responses = dict.fromkeys(_ERRORS, failed)
    responses |= {status: _said("Not so.", places[model]) for status, model in one.also.items()}
    if one.answered is not None or one.text is not None:
        answered = None if one.answered is None else places[one.answered]
        responses["200"] = _said(one.summary, answered, one.text)
    described: dict[str, Any] = {
        "summary": one.summary,
        "tags": [api.name],
        "operationId": f"{api.name}_{one.method.lower()}{path.replace('/', '_')}",
        "parameters": [*_in_path(path), *_in_query(one.query), *_in_header(one.only_with)],
        "responses": responses,
    }
    if one.asked is not None:
        content = {"application/json": {"schema": places[one.asked]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _in_path(path: str) -> list[dict[str, Any]]:
    name = path.partition("{")[2].partition("}")[0]
    where = {"name": name, "in": "path", "required": True}
    return [{**where, "schema": {"type": "string", "minLength": 1}}] if name else []


def _in_query(query: type[BaseModel] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    fields = query.model_json_schema()["properties"].items()
    return [{"name": name, "in": "query", "schema": schema} for name, schema in fields]


def _in_header(name: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "in": "header", "schema": {"type": "string"}}] if name else []


def _said(what: str, schema: dict[str, Any] | None, text: str | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {} if schema is None else {"application/json": {"schema": schema}}
    if text is not None:
        content[text] = {"schema": _TEXTS.get(text, {"type": "string"})}
    return {"description": what, "content": content}


def _either(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What two APIs do at one place, of which neither reads a body."""
    responses = {
        status: _either_said(one["responses"].get(status), other["responses"].get(status))
        for status in {**one["responses"], **other["responses"]}
    }
    return {
        **one,
        "summary": f"{one['summary']} {other['summary']}",
        "tags": [*one["tags"], *other["tags"]],
        "parameters": list(
            {(p["in"], p["name"]): p for p in (*one["parameters"], *other["parameters"])}.values()
        ),
        "responses": responses,
    }


def _either_said(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any]:
    if one is None or other is None:
        return one or other or {}
    kinds = {**one["content"], **other["content"]}
    schemas = {
        kind: [said["content"][kind]["schema"] for said in (one, other) if kind in said["content"]]
        for kind in kinds
    }
    content = {
        kind: {"schema": found[0] if len(found) == 1 else {"anyOf": found}}
        for kind, found in schemas.items()
    }
    return {**one, "content": content}
