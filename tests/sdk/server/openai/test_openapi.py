"""The API as its document says it: whatever is sent, it is answered so, and never by a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi import checks

from tests.sdk.server.client import Client
from tests.sdk.server.openai.conftest import KEY, MODEL, Served

CHECKS = [
    not_a_server_error,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]
OPERATIONS = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/{name}"),
    ("DELETE", "/v1/responses/{name}"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
]
FEW = {"max_tokens": 2, "max_completion_tokens": 2, "max_output_tokens": 2, "n": 2}
"""So that what can be answered is answered soon."""
CASES = [
    *((*operation, GenerationMode.POSITIVE) for operation in OPERATIONS),
    *((*operation, GenerationMode.NEGATIVE) for operation in OPERATIONS[:3]),  # which have bodies
]


@pytest.fixture(scope="module")
def document(raw: Client) -> Any:
    return json.loads(raw.get("/openapi.json", {"Authorization": f"Bearer {KEY}"}).body)


@pytest.fixture(scope="module")
def schema(document: Any) -> BaseSchema:
    return schemathesis.openapi.from_dict(document)


def check(
    served: Served, schema: BaseSchema, method: str, path: str, mode: GenerationMode, examples: int
) -> None:
    operation = schema[path][method]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def answered(data: st.DataObject) -> None:
        case: Case = data.draw(operation.as_strategy(generation_mode=mode))
        if isinstance(case.body, dict):
            few = {name: most for name, most in FEW.items() if type(case.body.get(name)) is int}
            known = {"model": MODEL} if isinstance(case.body.get("model"), str) else {}
            case.body = {"max_tokens": 2, **case.body, **few, **known}
            if path == "/v1/responses":
                del case.body["max_tokens"]
                case.body.setdefault("max_output_tokens", 2)
        headers = {"Authorization": f"Bearer {KEY}"}
        response = case.call(base_url=served.url.rstrip("/"), headers=headers)
        case.validate_response(response, checks=CHECKS)

    answered()


def test_the_document_has_every_operation(document: Any) -> None:
    found = [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]
    assert sorted(found) == sorted(OPERATIONS)
    assert document["openapi"].startswith("3.1")
    assert "ChatRequest" in document["components"]["schemas"]


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_whatever_is_sent_is_answered_as_the_document_says(
    served: Served, schema: BaseSchema, method: str, path: str, mode: GenerationMode
) -> None:
    check(served, schema, method, path, mode, examples=10)


@pytest.mark.full
@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_whatever_is_sent_is_answered_so_at_length(
    served: Served, schema: BaseSchema, method: str, path: str, mode: GenerationMode
) -> None:
    check(served, schema, method, path, mode, examples=300)
