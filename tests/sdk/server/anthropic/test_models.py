"""`GET /v1/models` as Anthropic's clients ask it."""

from __future__ import annotations

import json

import pytest
from anthropic import Anthropic, BadRequestError, NotFoundError
from hypothesis import given
from hypothesis import strategies as st

from edgewise.server.anthropic.models import PageQuery, page_of
from edgewise_runtime.errors import InputError
from tests.sdk.server.anthropic.conftest import KEY, MODEL, Served
from tests.sdk.server.client import Client

NAMES = [f"m{number}" for number in range(7)]
BEARER = {"Authorization": f"Bearer {KEY}"}


def test_models_are_listed_in_its_words(client: Anthropic, served: Served) -> None:
    page = client.models.list()
    [model] = page.data
    assert (model.id, model.display_name, model.type) == (MODEL, MODEL, "model")
    assert model.created_at.timestamp() > 0
    assert model.max_input_tokens == served.engine.context
    assert (page.has_more, page.first_id, page.last_id) == (False, MODEL, MODEL)
    assert client.models.retrieve(MODEL) == model
    assert client.models.with_raw_response.retrieve(MODEL).headers["request-id"]


def test_what_is_not_there_is_said_in_its_words(client: Anthropic) -> None:
    with pytest.raises(NotFoundError, match="no model 'other'"):
        client.models.retrieve("other")
    with pytest.raises(BadRequestError, match="to go on from"):
        client.models.list(after_id="other")
    with pytest.raises(BadRequestError, match="limit"):
        client.models.list(limit=0)


def test_who_says_no_version_is_told_in_openais_words(raw: Client) -> None:
    listed = json.loads(raw.get("/v1/models", BEARER).body)
    assert (listed["object"], listed["data"][0]["object"]) == ("list", "model")
    versioned = {**BEARER, "Anthropic-Version": "2023-06-01"}
    assert "has_more" in json.loads(raw.get("/v1/models", versioned).body)
    for path in ("/v1/files", "/v1"):
        assert "code" in json.loads(raw.get(path, BEARER).body)["error"]
        assert json.loads(raw.get(path, versioned).body)["type"] == "error"


@given(limit=st.integers(1, 9))
def test_pages_one_after_the_other_are_all_models(limit: int) -> None:
    found: list[str] = []
    more, last = True, None
    while more:
        page, more = page_of(NAMES, PageQuery(limit=limit, after_id=last))
        found += page
        last = page[-1]
    assert found == NAMES
    found, more, first = [], True, "m6"
    while more:
        page, more = page_of(NAMES, PageQuery(limit=limit, before_id=first))
        found = [*page, *found]
        first = page[0]
    assert found == NAMES[:-1]


def test_no_model_is_an_empty_page() -> None:
    assert page_of([], PageQuery()) == ([], False)


def test_a_page_has_one_direction() -> None:
    with pytest.raises(InputError) as raised:
        page_of(NAMES, PageQuery(after_id="m1", before_id="m3"))
    assert raised.value.code == "input.query"
