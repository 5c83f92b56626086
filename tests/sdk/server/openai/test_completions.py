"""`POST /v1/completions`, asked by the official client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai import APIStatusError, OpenAI
from openai.types import Completion

from edgewise import Engine
from tests.sdk.server.openai.conftest import MODEL, Served

HOT: dict[str, Any] = {"model": MODEL, "temperature": 1.0, "seed": 5, "max_tokens": 8}
TEXTS = ["Once upon a time", "The sea", "Nobody"]


def text_of(chunks: list[Completion], index: int = 0) -> str:
    return "".join(one.text for chunk in chunks for one in chunk.choices if one.index == index)


def test_a_text_goes_on_as_the_engine_lets_it(client: OpenAI, engine: Engine) -> None:
    said = engine.generate(TEXTS[0], temperature=1.0, seed=5, max_tokens=8)
    ids = engine.tokenizer.encode(TEXTS[0])
    for prompt in (TEXTS[0], ids, [TEXTS[0]], [ids]):
        done = client.completions.create(**HOT, prompt=prompt)
        [choice] = done.choices
        assert (choice.text, choice.finish_reason) == (said.text, "length")
        assert done.usage is not None
        assert done.usage.prompt_tokens == said.usage.prompt_tokens
        assert (done.usage.completion_tokens, done.object) == (8, "text_completion")


def test_an_answer_has_sixteen_tokens_where_nobody_says_more(client: OpenAI) -> None:
    usage = client.completions.create(
        model=MODEL, prompt="a", extra_body={"ignore_eos": True}
    ).usage
    assert usage is not None
    assert usage.completion_tokens == 16


def test_several_prompts_have_their_choices_in_order(client: OpenAI, engine: Engine) -> None:
    done = client.completions.create(**HOT, prompt=TEXTS, n=2)
    said = [
        choice.text
        for text in TEXTS
        for choice in engine.submit(text, temperature=1.0, seed=5, max_tokens=8, n=2).results()
    ]
    assert [choice.text for choice in done.choices] == said
    assert [choice.index for choice in done.choices] == list(range(6))
    assert done.usage is not None
    assert done.usage.completion_tokens == 48
    assert done.usage.prompt_tokens == sum(len(engine.tokenizer.encode(text)) for text in TEXTS)
    told = {**HOT, "stream_options": {"include_usage": True}}
    *chunks, last = client.completions.create(**told, prompt=TEXTS, n=2, stream=True)
    assert [text_of(chunks, index) for index in range(6)] == said
    assert last.usage is not None
    assert last.usage.total_tokens == done.usage.total_tokens
    ends = [one for chunk in chunks for one in chunk.choices if one.finish_reason]
    assert sorted(one.index for one in ends) == list(range(6))


def test_a_prompt_is_repeated_where_that_is_asked(client: OpenAI, engine: Engine) -> None:
    alone = client.completions.create(**HOT, prompt=TEXTS[1]).choices[0].text
    for prompt in (TEXTS[1], engine.tokenizer.encode(TEXTS[1])):
        done = client.completions.create(**HOT, prompt=prompt, echo=True)
        assert done.choices[0].text == TEXTS[1] + alone
        chunks = list(client.completions.create(**HOT, prompt=prompt, echo=True, stream=True))
        assert text_of(chunks) == TEXTS[1] + alone


def test_tokens_come_with_how_likely_they_are(client: OpenAI) -> None:
    told = {**HOT, "prompt": TEXTS[0], "logprobs": 2}
    choice = client.completions.create(**told).choices[0]
    assert choice.logprobs is not None
    tokens, likely = choice.logprobs.tokens or [], choice.logprobs.token_logprobs or []
    assert len(tokens) == len(likely) == len(choice.logprobs.top_logprobs or []) == 8
    assert max(likely) <= 0
    assert (choice.logprobs.text_offset or [])[0] == 0
    assert len((choice.logprobs.top_logprobs or [])[0]) == 2
    chunks = list(client.completions.create(**told, stream=True))
    found = [chunk.choices[0].logprobs for chunk in chunks]
    assert [token for one in found if one for token in one.tokens or []] == tokens
    offsets = [offset for one in found if one for offset in one.text_offset or []]
    assert offsets == choice.logprobs.text_offset


def test_a_stream_comes_to_asyncio(served: Served, client: OpenAI) -> None:
    alone = client.completions.create(**HOT, prompt=TEXTS).choices

    async def ask() -> list[Completion]:
        async with served.asynchronous() as client:
            stream = await client.completions.create(**HOT, prompt=TEXTS, stream=True)
            return [chunk async for chunk in stream]

    chunks = asyncio.run(ask())
    assert [text_of(chunks, one.index) for one in alone] == [one.text for one in alone]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"prompt": []}, "input.empty", ""),
        ({"prompt": ""}, "input.empty", ""),
        ({"prompt": 3}, "input.body", "prompt"),
        ({"prompt": [1, "a"]}, "input.body", "prompt"),
        ({"prompt": [[1], 2]}, "input.body", "prompt"),
        ({"prompt": [1 << 40]}, "input.body", "prompt"),
        ({"prompt": [99999]}, "input.token", "99999"),
        ({"prompt": ["a", "b" * 4000]}, "context_length_exceeded", "256"),
        ({"suffix": "after"}, "unsupported.parameter", "suffix is 'after'"),
        ({"best_of": 2}, "unsupported.parameter", "best_of is 2"),
        ({"echo": True, "logprobs": 1}, "unsupported.parameter", "echo is set with logprobs"),
        ({"logprobs": 21}, "input.sampling", "top_logprobs"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_refused(
    client: OpenAI, given: dict[str, Any], code: str, said: str, stream: bool
) -> None:
    with pytest.raises(APIStatusError) as raised:
        client.completions.create(model=MODEL, prompt="a", stream=stream, extra_body=given)
    error: Any = raised.value
    assert (error.status_code, error.code) == (400, code)
    assert said in error.body["message"]
