"""`POST /v1/embeddings`, asked by the official client."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from openai import BadRequestError, OpenAI

from edgewise import Engine
from edgewise.embedding import MAX_TEXTS
from tests.sdk.server.client import Client
from tests.sdk.server.openai.conftest import KEY, MODEL

TEXTS = ["The quick brown fox", "A model", "Zürich 🙂"]
BEARER = {"Authorization": f"Bearer {KEY}"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"input": ""}, "The prompt is empty"),
    ({"input": []}, "input"),
    ({"input": ["a", ""]}, "Text 1"),
    ({"input": "word " * 5000}, "context"),
    ({"input": [1 << 20]}, "token"),
    ({"input": ["a"] * (MAX_TEXTS + 1)}, "input"),
    ({"input": [["a"]]}, "input"),
    ({"input": "a", "dimensions": 0}, "vectors of this model have 96"),
    ({"input": "a", "dimensions": 97}, "vectors of this model have 96"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ({"input": "a", "pooling": "cls"}, "pooling"),
    ({"input": "a", "prompt_name": "code"}, "no prompt 'code'. It has document, query."),
    ({"input": "a", "prompt_name": 1}, "prompt_name"),
]


def test_texts_have_the_vectors_of_the_engine(client: OpenAI, engine: Engine) -> None:
    found = client.embeddings.create(model=MODEL, input=TEXTS)
    assert (found.object, found.model) == ("list", MODEL)
    assert [one.index for one in found.data] == [0, 1, 2]
    np.testing.assert_array_equal(vectors(found), engine.embed(TEXTS))
    tokens = sum(len(engine.tokenizer.encode(text)) for text in TEXTS)
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (tokens, tokens)


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_both_encodings_are_the_same_numbers(client: OpenAI, engine: Engine, encoding: Any) -> None:
    found = client.embeddings.create(model=MODEL, input=TEXTS[0], encoding_format=encoding)
    given: Any = found.data[0].embedding
    vector = np.frombuffer(b64decode(given), "<f4") if encoding == "base64" else given
    np.testing.assert_array_equal(np.asarray(vector, np.float32), engine.embed(TEXTS[0])[0])


@pytest.mark.parametrize("several", [False, True])
def test_tokens_are_taken_for_texts(client: OpenAI, engine: Engine, several: bool) -> None:
    ids = [engine.tokenizer.encode(text) for text in TEXTS]
    found = client.embeddings.create(model=MODEL, input=ids if several else ids[0])
    expected = engine.embed(TEXTS if several else TEXTS[0])
    np.testing.assert_array_equal(vectors(found), expected)


def test_fewer_dimensions_are_the_first_ones_of_length_1_again(
    client: OpenAI, engine: Engine
) -> None:
    found = vectors(client.embeddings.create(model=MODEL, input=TEXTS, dimensions=16))
    cut = engine.embed(TEXTS)[:, :16]
    assert found.shape == (len(TEXTS), 16)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(found, cut / np.linalg.norm(cut, axis=1, keepdims=True), rtol=1e-6)


def test_pooling_may_be_asked_for_beside_the_api(client: OpenAI, engine: Engine) -> None:
    found = client.embeddings.create(model=MODEL, input=TEXTS, extra_body={"pooling": "mean"})
    np.testing.assert_array_equal(vectors(found), engine.embed(TEXTS, pooling="mean"))


def test_a_prompt_of_the_model_may_be_named_beside_the_api(client: OpenAI, engine: Engine) -> None:
    named = {"prompt_name": "query"}
    found = vectors(client.embeddings.create(model=MODEL, input=TEXTS, extra_body=named))
    np.testing.assert_array_equal(found, engine.embed([f"Find: {text}" for text in TEXTS]))
    assert not np.array_equal(found, engine.embed(TEXTS))


@pytest.mark.parametrize(("asked", "said"), WRONG)
def test_what_has_no_vector_is_refused(raw: Client, asked: dict[str, Any], said: str) -> None:
    answer = raw.post("/v1/embeddings", {"model": MODEL, **asked}, BEARER)
    assert answer.status == 400
    error = json.loads(answer.body)["error"]
    assert error["type"] == "invalid_request_error"
    assert said in error["message"]


def test_the_client_raises_what_was_said(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as raised:
        client.embeddings.create(model=MODEL, input="")
    assert raised.value.code == "input.empty"


def vectors(found: Any) -> Any:
    return np.asarray([one.embedding for one in found.data], np.float32)
