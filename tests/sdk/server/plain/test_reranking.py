"""Documents put in order by the angle between their vectors and a query's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from edgewise.embedding import MAX_TEXTS
from tests.sdk.server.plain.test_tokens import Served, served

__all__ = ["served"]

QUERY = "The quick brown fox"
DOCUMENTS = ["A model", QUERY, "Zürich", "The quick brown dog"]


def ranked(served: Served, path: str = "/rerank", **asked: Any) -> Any:
    return served.ask(path, query=QUERY, **{"documents": DOCUMENTS, **asked})


@pytest.mark.parametrize("path", ["/rerank", "/reranking", "/v1/rerank", "/v1/reranking"])
def test_the_score_is_the_cosine_and_the_best_is_first(served: Served, path: str) -> None:
    found = ranked(served, path)
    answer = served.one.post("/v1/embeddings", {"model": "first", "input": [QUERY, *DOCUMENTS]})
    query, *documents = (one["embedding"] for one in json.loads(answer.body)["data"])
    scores = {one["index"]: one["relevance_score"] for one in found["results"]}
    assert [scores[nth] for nth in range(4)] == pytest.approx(np.asarray(documents) @ query)
    assert sorted(scores.values(), reverse=True) == list(scores.values())
    assert found["results"][0]["index"] == 1
    assert found["results"][0]["relevance_score"] == pytest.approx(1, rel=1e-6)
    assert (found["object"], found["model"]) == ("list", "first")
    tokens = sum(len(served.tokenizer.encode(text)) for text in [QUERY, *DOCUMENTS])
    assert found["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


def test_as_many_are_told_as_are_asked_for_and_with_their_texts(served: Served) -> None:
    best = ranked(served, top_n=2)["results"]
    assert best == ranked(served)["results"][:2]
    documents = [{"text": text} for text in DOCUMENTS]
    found = ranked(served, documents=documents, return_documents=True)["results"]
    assert [one["document"] for one in found] == [documents[one["index"]] for one in found]


def test_equals_stay_in_their_order(served: Served) -> None:
    found = ranked(served, documents=["same"] * 5)["results"]
    assert [one["index"] for one in found] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "query"),
        ({"query": "a"}, "documents"),
        ({"query": "a", "documents": []}, "documents"),
        ({"query": "a", "documents": [""]}, "Text 1: The prompt is empty"),
        ({"query": "a", "documents": ["b"] * MAX_TEXTS}, "documents"),
        ({"query": "a", "documents": [7]}, "documents"),
        ({"query": "a", "documents": ["b"], "top_n": 0}, "top_n"),
    ],
)
def test_what_cannot_be_ranked_is_refused(served: Served, asked: dict[str, Any], said: str) -> None:
    answer = served.one.post("/rerank", asked)
    assert answer.status == 400
    assert said in json.loads(answer.body)["error"]["message"]
