"""OpenAI's batch files: lines of requests, and the lines that come of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from openai.types.chat import ChatCompletion
from openai.types.completion import Completion
from openai.types.create_embedding_response import CreateEmbeddingResponse

from edgewise import EdgewiseError, Engine, InputError
from edgewise.hosting.base import Hosted
from edgewise.hosting.loading import Loading
from edgewise.ray.data.batch_file import TEXT, Answering, digest_of_line
from edgewise.ray.data.keys import seed_of
from edgewise.ray.data.parts import BATCH_ID, ROW_KEY

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def hosted(tiny: Path) -> Iterator[Hosted]:
    model = asyncio.run(Loading(name="tiny", bundle=str(tiny), context=4096).load())
    yield model
    asyncio.run(model.close())


def line(url: str, body: dict[str, Any], custom_id: str = "a", **more: Any) -> str:
    asked = {"model": "gpt-4o-mini", "max_tokens": 6, **body}
    said = {"custom_id": custom_id, "method": "POST", "url": url, "body": asked, **more}
    return json.dumps(said)


def responses(
    hosted: Hosted, *lines: str, model: str | None = None, keep: bool = True
) -> list[dict[str, Any]]:
    """What comes of lines, whose failures are told in a column, too."""

    async def load() -> Hosted:
        return hosted

    keys = [digest_of_line({TEXT: one}).hex() for one in lines]
    table = pa.table({TEXT: list(lines), ROW_KEY: keys})
    came = asyncio.run(Answering(load, model, 3, keep)(table))
    found = [json.loads(one) for one in came["line"].to_pylist()]
    assert [one["id"] for one in found] == [f"{BATCH_ID}{key}" for key in keys]
    for one, failed in zip(found, came["failed"].to_pylist(), strict=True):
        assert failed == ((one["response"] or {}).get("status_code") != 200)
    return found


def test_each_api_answers_in_its_own_words(hosted: Hosted, engine: Engine) -> None:
    greedy = {"temperature": 0, "ignore_eos": True}
    chat, completion, embedding = responses(
        hosted,
        line("/v1/chat/completions", {"messages": MESSAGES, **greedy}, "chat"),
        line("/v1/completions", {"prompt": "Once", **greedy}, "prompt"),
        line("/v1/embeddings", {"input": ["Once", "Twice"]}, "vectors"),
    )
    assert [one["custom_id"] for one in (chat, completion, embedding)] == [
        "chat",
        "prompt",
        "vectors",
    ]
    for one in (chat, completion, embedding):
        assert (one["response"]["status_code"], one["error"]) == (200, None)
    said = ChatCompletion.model_validate(chat["response"]["body"])
    alone = engine.chat(MESSAGES, max_tokens=6, temperature=0, ignore_eos=True)
    assert said.choices[0].message.content == alone.text
    assert said.usage is not None
    assert said.usage.completion_tokens == 6
    went_on = Completion.model_validate(completion["response"]["body"])
    assert went_on.choices[0].text == (
        engine.generate("Once", max_tokens=6, temperature=0, ignore_eos=True).text
    )
    vectors = CreateEmbeddingResponse.model_validate(embedding["response"]["body"])
    assert [len(one.embedding) for one in vectors.data] == [engine.model.hidden] * 2


def test_a_request_that_says_no_seed_has_one_of_its_own(hosted: Hosted, engine: Engine) -> None:
    hot = {"prompt": "Once", "temperature": 1.0, "ignore_eos": True}
    asked = [line("/v1/completions", hot, name) for name in ("a", "b")]
    texts = [
        one["response"]["body"]["choices"][0]["text"]
        for one in (*responses(hosted, *asked), *responses(hosted, *asked[::-1]))
    ]
    assert texts == [texts[0], texts[1], texts[1], texts[0]]
    for text, one in zip(texts, asked, strict=False):
        seed = seed_of(3, digest_of_line({TEXT: one}))
        options: dict[str, Any] = {"temperature": 1.0, "ignore_eos": True, "max_tokens": 6}
        assert engine.generate("Once", seed=seed, **options).text == text
    said = {**hot, "seed": 5}
    first, second = responses(
        hosted, line("/v1/completions", said, "a"), line("/v1/completions", said, "b")
    )
    assert first["response"]["body"]["choices"] == second["response"]["body"]["choices"]


@pytest.mark.parametrize(
    ("url", "body", "status", "code"),
    [
        ("/v1/chat/completions", {"messages": []}, 400, "input.body"),
        ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}, 400, "input.body"),
        ("/v1/chat/completions", {"messages": MESSAGES, "audio": {}}, 400, "unsupported.parameter"),
        ("/v1/completions", {"prompt": "long " * 9000}, 400, "context_length_exceeded"),
        ("/v1/images", {}, 404, "input.path"),
    ],
)
def test_a_request_that_fails_has_a_status_and_the_apis_error(
    hosted: Hosted, url: str, body: dict[str, Any], status: int, code: str
) -> None:
    failed, fine = responses(
        hosted, line(url, body), line("/v1/completions", {"prompt": "Once"}, "b")
    )
    assert (failed["custom_id"], failed["error"]) == ("a", None)
    assert failed["response"]["status_code"] == status
    assert failed["response"]["body"]["error"]["code"] == code
    assert fine["response"]["status_code"] == 200
    with pytest.raises(EdgewiseError):
        responses(hosted, line(url, {**body, "messages": []}), keep=False)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "{}",
        "[" * 100_000,
        line("/v1/completions", {"prompt": "Once"}, method="GET"),
        line("/v1/completions", {"prompt": "Once"}, ""),
        json.dumps({"custom_id": 3, "method": "POST", "url": "/v1/completions", "body": {}}),
    ],
)
def test_a_line_that_is_no_request_has_an_error_and_no_response(hosted: Hosted, text: str) -> None:
    (found,) = responses(hosted, text)
    assert (found["custom_id"], found["response"]) == (None, None)
    assert found["error"]["code"] in ("input.body", "input.body_size")
    assert found["error"]["message"]
    with pytest.raises(InputError):
        responses(hosted, text, keep=False)


def test_another_models_requests_are_refused_where_its_name_is_said(hosted: Hosted) -> None:
    asked = line("/v1/completions", {"prompt": "Once"})
    (found,) = responses(hosted, asked, model="tiny")
    assert found["response"]["status_code"] == 404
    assert found["response"]["body"]["error"]["code"] == "model_not_found"
    (fine,) = responses(hosted, asked, model="gpt-4o-mini")
    assert fine["response"]["status_code"] == 200


def test_lines_are_known_by_their_custom_id_and_else_by_all_that_is_in_them() -> None:
    one, other = line("/v1/completions", {"prompt": "a"}), line("/v1/completions", {"prompt": "b"})
    assert digest_of_line({TEXT: one}) == digest_of_line({TEXT: other})
    assert digest_of_line({TEXT: "x"}) != digest_of_line({TEXT: "y"})
