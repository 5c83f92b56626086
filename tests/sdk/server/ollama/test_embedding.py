"""`/api/embed` and the older `/api/embeddings`, asked by Ollama's own client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ollama import ResponseError

from edgewise import Engine
from tests.sdk.server.ollama.conftest import PLAIN, Served

TEXTS = ["The quick brown fox", "A model"]
LONG = "word " * 600


@pytest.fixture(scope="module")
def engine(bundles: Callable[..., Path]) -> Iterator[Engine]:
    with Engine(bundles("llama-mha")) as engine:
        yield engine


def test_texts_have_the_vectors_of_the_engine(served: Served, engine: Engine) -> None:
    found = served.client.embed(PLAIN, TEXTS)
    assert found.model == PLAIN
    np.testing.assert_array_equal(np.asarray(found.embeddings, np.float32), engine.embed(TEXTS))
    tokens = sum(len(engine.tokenizer.encode(text)) for text in TEXTS)
    assert found.prompt_eval_count == tokens
    assert (found.total_duration or 0) >= (found.load_duration or 0) > 0
    one = served.client.embed(f"{PLAIN}:latest", TEXTS[0]).embeddings
    np.testing.assert_array_equal(np.asarray(one, np.float32), engine.embed(TEXTS[0]))


def test_the_older_endpoint_leaves_vectors_their_length(served: Served, engine: Engine) -> None:
    found = served.client.embeddings(PLAIN, TEXTS[0])
    expected = engine.embed(TEXTS[0], normalize=False)[0]
    np.testing.assert_array_equal(np.asarray(found.embedding, np.float32), expected)


def test_vectors_are_cut_to_fewer_dimensions(served: Served) -> None:
    [found] = served.client.embed(PLAIN, TEXTS[0], dimensions=8).embeddings
    assert len(found) == 8
    assert np.linalg.norm(found) == pytest.approx(1, rel=1e-6)


def test_what_is_behind_the_context_is_left_out_unless_that_is_refused(
    served: Served, engine: Engine
) -> None:
    found = served.client.embed(PLAIN, LONG)
    assert found.prompt_eval_count == engine.context
    expected = engine.embed(LONG, truncate=True)
    np.testing.assert_array_equal(np.asarray(found.embeddings, np.float32), expected)
    with pytest.raises(ResponseError, match="context") as refused:
        served.client.embed(PLAIN, LONG, truncate=False)
    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("/api/embed", {}, {"embeddings": []}),
        ("/api/embed", {"input": ""}, {"embeddings": []}),
        ("/api/embed", {"input": []}, {"embeddings": []}),
        ("/api/embeddings", {}, {"embedding": []}),
        ("/api/embeddings", {"prompt": ""}, {"embedding": []}),
    ],
)
def test_without_a_text_the_model_is_only_loaded(
    served: Served, path: str, asked: dict[str, Any], said: dict[str, Any]
) -> None:
    answer = served.http.post(path, {"model": PLAIN, **asked})
    assert answer.status == 200
    assert said.items() <= json.loads(answer.body).items()


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"model": "nope", "input": "a"}, 404, "not found"),
        ({"model": PLAIN, "input": ["a", ""]}, 400, "Text 1"),
        ({"model": PLAIN, "input": "a", "dimensions": 9999}, 400, "dimensions"),
        ({"model": PLAIN, "input": 7}, 400, "input"),
        ({"model": PLAIN, "input": "a", "keep_alive": "soon"}, 400, "keep_alive"),
    ],
)
def test_what_has_no_vector_is_refused(
    served: Served, asked: dict[str, Any], status: int, said: str
) -> None:
    answer = served.http.post("/api/embed", asked)
    assert answer.status == status
    assert said in json.loads(answer.body).get("error", "")


def test_options_that_change_nothing_are_named(served: Served) -> None:
    asked = {"model": PLAIN, "input": "a", "options": {"temperature": 1}}
    assert "temperature" in (served.http.post("/api/embed", asked).headers["Warning"] or "")
