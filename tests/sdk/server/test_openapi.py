"""The APIs as their document says them: whatever is sent is answered so, and never by a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi import checks
from starlette.routing import Route

from edgewise import AsyncEngine
from edgewise.hosting.local import LocalModel
from edgewise.server.api import ApiRoute
from edgewise.server.app import make_app
from edgewise.server.run import in_background, listen
from tests.sdk.other_texts import with_texts
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some
from tests.sdk.test_constrained import TEMPLATE

MODEL = "tiny"
KEY = "sk-edgewise-0123456789"
BEARER = {"Authorization": f"Bearer {KEY}"}
ANTHROPIC = {**BEARER, "anthropic-version": "2023-06-01"}
BROKEN = "/v1/models/a%0Ab%0D%E2%80%A8c"
"""A name of several lines."""
CHECKS = [
    not_a_server_error,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]
OPERATIONS = {
    "/api/blobs/{digest}": ("HEAD", "POST"),
    "/api/chat": ("POST",),
    "/api/copy": ("POST",),
    "/api/create": ("POST",),
    "/api/delete": ("DELETE",),
    "/api/embed": ("POST",),
    "/api/embeddings": ("POST",),
    "/api/generate": ("POST",),
    "/api/ps": ("GET",),
    "/api/pull": ("POST",),
    "/api/push": ("POST",),
    "/api/show": ("POST",),
    "/api/tags": ("GET",),
    "/api/version": ("GET",),
    "/apply-template": ("POST",),
    "/detokenize": ("POST",),
    "/health": ("GET",),
    "/metrics": ("GET",),
    "/ready": ("GET",),
    "/rerank": ("POST",),
    "/reranking": ("POST",),
    "/tokenize": ("POST",),
    "/v1/chat/completions": ("POST",),
    "/v1/completions": ("POST",),
    "/v1/embeddings": ("POST",),
    "/v1/messages": ("POST",),
    "/v1/messages/count_tokens": ("POST",),
    "/v1/models": ("GET",),
    "/v1/models/{name}": ("GET",),
    "/v1/rerank": ("POST",),
    "/v1/reranking": ("POST",),
    "/v1/responses": ("POST",),
    "/v1/responses/{name}": ("DELETE", "GET"),
    "/v1/ws/ticket": ("POST",),
}
UNDESCRIBED = {"/openapi.json", "/v1", "/v1/{path:rest}"}
"""The document, and what says that there is nothing."""
SHORT: dict[str, tuple[str, ...]] = {
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens", "n"),
    "/v1/completions": ("max_tokens", "n"),
    "/v1/messages": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
}
"""Fields that make an answer long; the first is set where it is missing."""
FEW = 2
"""So that what can be answered is answered soon."""


@dataclass(frozen=True)
class Served:
    """A server of all APIs.

    Attributes:
        document: what ``/openapi.json`` says.
        session: for many requests over few connections.
    """

    url: str
    client: Client
    document: Any
    schema: BaseSchema
    session: requests.Session
    routes: tuple[Route, ...]


@pytest.fixture(scope="module")
def served(
    bundles: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("openapi") / MODEL
    bundle = with_texts(
        bundles("llama-gqa2-tied-linear"), folder, {"chat_template.jinja": TEMPLATE}
    )
    engine = asyncio.run(AsyncEngine.load(bundle))
    app = make_app({}, {}, models=Some({MODEL: LocalModel(MODEL, engine)}), api_key=KEY)
    routes = tuple(one for one in app.routes if isinstance(one, ApiRoute))
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(app, listening) as url,
        requests.Session() as session,
    ):
        client = Client(url)
        document = json.loads(client.get("/openapi.json", BEARER).body)
        schema = schemathesis.openapi.from_dict(document)
        yield Served(url.rstrip("/"), client, document, schema, session, routes)
    asyncio.run(engine.close())


def test_the_document_has_every_operation(served: Served) -> None:
    paths = served.document["paths"]
    found = {path: tuple(sorted(map(str.upper, methods))) for path, methods in paths.items()}
    assert found == OPERATIONS
    there = {route.path for route in served.routes} - UNDESCRIBED
    assert {path.replace(":rest}", "}") for path in there} == set(OPERATIONS)
    assert served.document["openapi"].startswith("3.1")


def test_apis_keep_their_words_apart(served: Served) -> None:
    schemas = served.document["components"]["schemas"]
    assert {"openai.ChatRequest", "ollama.ChatRequest", "anthropic.MessagesRequest"} <= set(schemas)
    turn = schemas["anthropic.Turn"]["properties"]["content"]
    assert {one.get("type") for one in turn["anyOf"]} == {"string", "array"}


def described(served: Served, path: str, method: str, status: int) -> Any:
    """The schema of an answer as JSON, with what it refers to."""
    at = path if path in served.document["paths"] else "/v1/models/{name}"
    response = served.document["paths"][at][method]["responses"][str(status)]
    schema = response["content"]["application/json"]["schema"]
    return {**schema, "components": served.document["components"]}


TURNS = [{"role": "user", "content": "a"}]
ANSWERED: list[tuple[str, dict[str, Any] | None, dict[str, str]]] = [
    ("/v1/models", None, BEARER),
    ("/v1/models", None, ANTHROPIC),
    (f"/v1/models/{MODEL}", None, ANTHROPIC),
    ("/v1/models/other", None, ANTHROPIC),
    (BROKEN, None, BEARER),
    ("/v1/messages", {"model": MODEL, "max_tokens": 3, "messages": TURNS}, ANTHROPIC),
    ("/v1/messages", {"model": MODEL, "max_tokens": 0, "messages": []}, ANTHROPIC),
    ("/v1/messages/count_tokens", {"model": MODEL, "messages": TURNS}, ANTHROPIC),
    ("/v1/embeddings", {"model": MODEL, "input": ["a", "b"]}, BEARER),
    ("/api/chat", {"model": MODEL, "messages": TURNS, "options": {"num_predict": 3}}, BEARER),
    ("/api/chat", {"model": MODEL, "messages": TURNS, "logprobs": True, "top_logprobs": 2}, BEARER),
    ("/api/chat", {"model": MODEL}, BEARER),
    ("/api/chat", {"model": "other"}, BEARER),
    ("/api/generate", {"model": MODEL, "prompt": "a", "options": {"num_predict": 3}}, BEARER),
    ("/api/generate", {"model": MODEL, "keep_alive": 0}, BEARER),
    ("/api/embed", {"model": MODEL, "input": ["a", "b"]}, BEARER),
    ("/api/embeddings", {"model": MODEL, "prompt": "a"}, BEARER),
    ("/api/show", {"model": MODEL}, BEARER),
    ("/api/show", {"name": MODEL}, BEARER),
    ("/api/tags", None, BEARER),
    ("/api/ps", None, BEARER),
    ("/api/version", None, BEARER),
    ("/api/pull", {"model": "org/repo"}, BEARER),
    ("/api/push", {}, BEARER),
    ("/tokenize", {"content": "a b"}, BEARER),
    ("/tokenize", {"content": "a b", "with_pieces": True}, BEARER),
    ("/tokenize", {"content": "a", "model": "other"}, BEARER),
    ("/detokenize", {"tokens": [70, 71]}, BEARER),
    ("/apply-template", {"messages": TURNS}, BEARER),
    ("/rerank", {"query": "a", "documents": ["a", "b"], "return_documents": True}, BEARER),
    ("/v1/ws/ticket", {}, BEARER),
    ("/health", None, {}),
    ("/ready", None, {}),
]


@pytest.mark.parametrize(("path", "body", "headers"), ANSWERED)
def test_an_answer_is_as_the_document_says(
    served: Served, path: str, body: dict[str, Any] | None, headers: dict[str, str]
) -> None:
    client = served.client
    if body is not None and path in ("/api/chat", "/api/generate"):
        body = {**body, "stream": False}
    answer = client.get(path, headers) if body is None else client.post(path, body, headers)
    method = "get" if body is None else "post"
    schema = described(served, path, method, answer.status)
    Draft202012Validator(schema).validate(json.loads(answer.body))


def bounded(path: str, body: Any) -> Any:
    """What was guessed, for the model that there is, and so that its answer is short."""
    if not isinstance(body, dict):
        return body
    found = dict(body)
    if isinstance(found.get("model"), str):
        found["model"] = MODEL
    if path in ("/api/chat", "/api/generate") and isinstance(found.get("options", {}), dict):
        found["options"] = {**found.get("options", {}), "num_predict": FEW}
    fields = SHORT.get(path, ())
    found |= {name: FEW for name in fields if type(found.get(name)) is int}
    for name in fields[:1]:
        found.setdefault(name, FEW)
    return found


def check(served: Served, method: str, path: str, mode: GenerationMode, examples: int) -> None:
    operation = served.schema[path][method]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def answered(data: st.DataObject) -> None:
        case: Case = data.draw(operation.as_strategy(generation_mode=mode))
        case.body = bounded(path, case.body)
        response = case.call(base_url=served.url, headers=BEARER, session=served.session)
        # That there is too much of something for now is no failure.
        busy = response.status_code == 503 and "engine.busy" in response.text
        case.validate_response(response, checks=CHECKS[1:] if busy else CHECKS)

    answered()


def modes(served: Served, method: str, path: str) -> list[GenerationMode]:
    """What is as the document wants it, and where there is a body what is not."""
    wants = "requestBody" in served.document["paths"][path][method.lower()]
    return [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if wants else [])]


CASES = [(method, path) for path, methods in OPERATIONS.items() for method in methods]


@pytest.mark.quick(cases=6)
@pytest.mark.parametrize(("method", "path"), CASES)
def test_whatever_is_sent_is_answered_as_the_document_says(
    served: Served, method: str, path: str
) -> None:
    for mode in modes(served, method, path):
        check(served, method, path, mode, examples=10)


@pytest.mark.full
@pytest.mark.parametrize(("method", "path"), CASES)
def test_whatever_is_sent_is_answered_so_at_length(served: Served, method: str, path: str) -> None:
    for mode in modes(served, method, path):
        check(served, method, path, mode, examples=300)
