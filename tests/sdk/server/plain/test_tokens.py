"""Tokens and prompts of a model, asked for as llama.cpp's server is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine
from edgewise.hosting.local import LocalModel
from edgewise.server.app import make_app
from edgewise.server.run import in_background, listen
from edgewise_runtime.text import Tokenizer
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some

TEXTS = ["", "The quick brown fox", " Zürich, 東京 🙂", "<|user|>Hi<|end|>"]
MESSAGES = [{"role": "user", "content": "Hello"}]


@dataclass(frozen=True)
class Served:
    one: Client
    both: Client
    tokenizer: Tokenizer

    def ask(self, path: str, **value: Any) -> Any:
        answer = self.one.post(path, value)
        assert answer.status == 200, answer.text
        return json.loads(answer.body)


@pytest.fixture(scope="module")
def served(bundles: Callable[..., Path]) -> Iterator[Served]:
    engine = asyncio.run(AsyncEngine.load(bundles("llama-mha")))
    hosted = {name: LocalModel(name, engine) for name in ("first", "second")}
    one = make_app({}, {}, models=Some({"first": hosted["first"]}))
    both = make_app({}, {}, models=Some(hosted))
    with (
        listen("127.0.0.1", 0) as here,
        listen("127.0.0.1", 0) as there,
        in_background(one, here) as one_url,
        in_background(both, there) as both_url,
    ):
        yield Served(Client(one_url), Client(both_url), engine.tokenizer)
    asyncio.run(engine.close())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("special", [False, True])
def test_a_text_goes_to_tokens_and_back(served: Served, text: str, special: bool) -> None:
    ids = served.ask("/tokenize", content=text, add_special=special)["tokens"]
    assert ids == served.tokenizer.encode(text, add_special_tokens=special)
    assert served.ask("/detokenize", tokens=ids)["content"].endswith(text)


def test_tokens_have_pieces(served: Served) -> None:
    text = " The quick <|user|> brown fox"
    found = served.ask("/tokenize", content=text, with_pieces=True)["tokens"]
    assert [one["id"] for one in found] == served.ask("/tokenize", content=text)["tokens"]
    assert "".join(one["piece"] for one in found) == text


def test_a_token_that_is_part_of_a_character_has_a_mark_for_it(served: Served) -> None:
    found = served.ask("/tokenize", content="🙃", with_pieces=True)["tokens"]
    assert len(found) > 1
    assert all("�" in one["piece"] for one in found)


def test_a_conversation_becomes_a_prompt(served: Served) -> None:
    prompt = served.ask("/apply-template", messages=MESSAGES)["prompt"]
    assert prompt == "<|begin|><|user|>Hello<|end|><|assistant|>"


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/tokenize", {"content": "a", "model": "nope"}, 404, "There is no 'nope'"),
        ("/tokenize", {"content": 7}, 400, "content"),
        ("/tokenize", {}, 400, "content"),
        ("/tokenize", {"content": "a", "parse_special": False}, 400, "parse_special"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens.0"),
        ("/detokenize", {"tokens": ["a"]}, 400, "tokens.0"),
        ("/apply-template", {"messages": [7]}, 400, "messages.0"),
        ("/apply-template", {"messages": [{"content": "no role"}]}, 400, "role"),
    ],
)
def test_what_there_is_not_is_refused(
    served: Served, path: str, body: dict[str, Any], status: int, said: str
) -> None:
    answer = served.one.post(path, body)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (status, status)
    assert said in error["message"]
    assert error["type"] == ("not_found_error" if status == 404 else "invalid_request_error")


def test_of_several_models_one_is_named(served: Served) -> None:
    answer = served.both.post("/tokenize", {"content": "a"})
    assert answer.status == 400
    assert "first, second" in json.loads(answer.body)["error"]["message"]
    assert served.both.post("/tokenize", {"content": "a", "model": "second"}).status == 200
