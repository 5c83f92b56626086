"""What an actor makes of batches of rows, without Ray around it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from edgewise import EdgewiseError, Engine, InputError, regex
from edgewise.hosting.base import Hosted
from edgewise.hosting.loading import Loading
from edgewise.ray.data.answering import SCHEMA
from edgewise.ray.data.asking import Asking, Columns
from edgewise.ray.data.worker import Completing

PROMPTS = [f"{word} upon a time" for word in ("Once", "Twice", "Thrice", "Never", "Always", "Ever")]
PROMPT = Columns(prompt="prompt", options="options", key="id")
CHAT = Columns(messages="messages")
HOT: dict[str, Any] = {"temperature": 1.0, "max_tokens": 8, "ignore_eos": True}
SCHEMA_OF_AGE = {
    "type": "json_schema",
    "json_schema": {
        "name": "age",
        "schema": {
            "type": "object",
            "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
            "required": ["age"],
            "additionalProperties": False,
        },
    },
}


def forecast(day: str) -> str:
    """Tell the weather."""
    return day


@pytest.fixture(scope="module")
def hosted(tiny: Path) -> Iterator[Hosted]:
    # Two may wait: batches have more rows than that.
    loading = Loading(name="tiny", bundle=str(tiny), context=4096, settings={"max_waiting": 2})
    model = asyncio.run(loading.load())
    yield model
    asyncio.run(model.close())


def answered(
    hosted: Hosted, asking: Asking, rows: list[dict[str, Any]], *, keep: bool = True
) -> list[dict[str, Any]]:
    async def load() -> Hosted:
        return hosted

    worker = Completing(load, asking, keep)
    return asyncio.run(worker(pa.Table.from_pylist(rows))).to_pylist()


def rows_of(*prompts: Any, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": at, "prompt": prompt, "options": None, **more} for at, prompt in enumerate(prompts)
    ]


def test_rows_keep_their_columns_and_get_those_of_the_answer_that_they_have_alone(
    hosted: Hosted, engine: Engine
) -> None:
    rows = rows_of(*PROMPTS, label="x")
    found = answered(hosted, Asking.of(PROMPT, HOT), rows)
    assert list(found[0]) == ["id", "prompt", "options", "label", *SCHEMA.names]
    for row, one in zip(rows, found, strict=True):
        assert {name: one[name] for name in row} == row
        alone = engine.generate(row["prompt"], seed=one["seed"], **HOT)
        assert (one["completion"], one["finish_reason"]) == (alone.text, "length")
        assert (one["prompt_tokens"], one["completion_tokens"]) == (alone.usage.prompt_tokens, 8)
        assert one["error"] is None
    assert len({row["seed"] for row in found}) == len(rows)


def test_completions_are_the_same_whatever_the_batches(hosted: Hosted) -> None:
    rows = rows_of(*PROMPTS)
    asking = Asking.of(PROMPT, {**HOT, "seed": 7})
    whole = answered(hosted, asking, rows)
    cut = [row for at in (4, 0, 2) for row in answered(hosted, asking, rows[at : at + 2])]

    def told(found: list[dict[str, Any]]) -> dict[int, tuple[Any, ...]]:
        return {row["id"]: (row["completion"], row["seed"]) for row in found}

    assert told(whole) == told(cut)
    other = answered(hosted, Asking.of(PROMPT, {**HOT, "seed": 8}), rows)
    assert told(other) != told(whole)


def test_a_prefix_that_is_known_is_counted(hosted: Hosted) -> None:
    rows = rows_of("A prompt of more than a page of tokens, " * 4)
    asking = Asking.of(PROMPT, HOT)
    answered(hosted, asking, rows)
    (again,) = answered(hosted, asking, rows)
    assert 0 < again["cached_tokens"] < again["prompt_tokens"]


def test_a_row_that_fails_says_why_and_the_others_are_answered(hosted: Hosted) -> None:
    rows = [
        *rows_of("Once", None, "", "long " * 9000, "Twice"),
        {"id": 5, "prompt": "Once", "options": '{"temperature": -1}'},
        {"id": 6, "prompt": "Once", "options": '{"temprature": 1}'},
        {"id": 7, "prompt": "Once", "options": '{"n": 2}'},
        {"id": 8, "prompt": "Once", "options": '{"response_format": {"type": "xml"}}'},
    ]
    found = answered(hosted, Asking.of(PROMPT, HOT), rows)
    codes = [row["error"] and row["error"]["code"] for row in found]
    assert codes == [
        None,
        "input.cell",
        "input.empty",
        "input.context",
        None,
        "input.sampling",
        "input.option",
        "input.n",
        "unsupported.response_format",
    ]
    for row in found:
        whole = row["error"] is None
        assert (row["completion"] is not None) == whole
        assert (row["prompt_tokens"] is not None) == whole
        assert whole or row["error"]["message"]


def test_a_row_that_fails_ends_the_batch_where_that_is_asked_for(hosted: Hosted) -> None:
    with pytest.raises(InputError, match="prompt is None"):
        answered(hosted, Asking.of(PROMPT, HOT), rows_of(None, *PROMPTS), keep=False)


def test_what_is_no_rows_own_ends_the_batch(hosted: Hosted, tiny: Path) -> None:
    rows = rows_of(*PROMPTS)
    with pytest.raises(InputError, match="no column 'q'"):
        answered(hosted, Asking.of(Columns(prompt="q"), HOT), rows)
    with pytest.raises(InputError, match="column 'error' already"):
        answered(hosted, Asking.of(PROMPT, HOT), rows_of(*PROMPTS, error="none"))
    closed = asyncio.run(Loading(name="tiny", bundle=str(tiny), context=64).load())
    asyncio.run(closed.close())
    with pytest.raises(EdgewiseError) as caught:
        answered(closed, Asking.of(PROMPT, HOT), rows)
    assert caught.value.code == "engine.closed"


def test_conversations_are_answered_as_the_engine_answers_them(
    hosted: Hosted, engine: Engine
) -> None:
    talks = [[{"role": "user", "content": text}] for text in ("Hi", "1 + 2?")]
    rows = [{"messages": talks[0]}, {"messages": talks[1]}]
    greedy = {"temperature": 0.0, "max_tokens": 6, "ignore_eos": True}
    found = answered(hosted, Asking.of(CHAT, greedy), rows)
    assert [row["completion"] for row in found] == [
        engine.chat(talk, **greedy).text for talk in talks
    ]


def test_answers_are_what_a_schema_or_an_expression_says(hosted: Hosted) -> None:
    rows = rows_of(*PROMPTS)
    rows[0]["options"] = json.dumps({"response_format": {"type": "regex", "pattern": "[ab]{5}"}})
    asking = Asking.of(PROMPT, {"response_format": SCHEMA_OF_AGE, "max_tokens": 40})
    first, *others = answered(hosted, asking, rows)
    assert re.fullmatch("[ab]{5}", first["completion"])
    assert all(0 <= json.loads(row["completion"])["age"] <= 99 for row in others)
    stage = Asking.of(PROMPT, {"response_format": regex("yes|no"), "max_tokens": 9})
    assert {row["completion"] for row in answered(hosted, stage, rows[1:])} <= {"yes", "no"}


def test_log_probabilities_are_those_that_the_engine_reports(
    hosted: Hosted, engine: Engine
) -> None:
    options = {**HOT, "logprobs": True, "top_logprobs": 2}
    (row,) = answered(hosted, Asking.of(PROMPT, options), rows_of("Once"))
    alone = engine.generate("Once", seed=row["seed"], **options)
    assert [(one["token_id"], one["logprob"]) for one in row["logprobs"]] == [
        (one.token_id, one.logprob) for one in alone.logprobs or ()
    ]
    for one in row["logprobs"]:
        assert len(one["top"]) == 2
        assert one["top"][0]["logprob"] >= one["top"][1]["logprob"]
    (silent,) = answered(hosted, Asking.of(PROMPT, HOT), rows_of("Once"))
    assert silent["logprobs"] is None


def test_calls_of_tools_are_told_as_json(hosted: Hosted) -> None:
    options = {"tool_choice": "required", "reasoning": False, "max_tokens": 200}
    rows = [{"messages": json.dumps([{"role": "user", "content": "Weather?"}])}]
    (row,) = answered(hosted, Asking.of(CHAT, options, tools=[forecast]), rows)
    if row["finish_reason"] == "tool_calls":
        (call, *_) = json.loads(row["tool_calls"])
        assert call["function"]["name"] == "forecast"
        assert list(json.loads(call["function"]["arguments"])) == ["day"]
