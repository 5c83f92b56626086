"""Answers of the tiny model, which makes no sense, are what was asked for all the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from edgewise import AsyncEngine, Completion, EdgewiseError, Engine, ToolCall, deltas
from edgewise.response_format import grammar, regex
from tests.sdk.other_texts import with_texts

QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "1 + 2?"}]
HOT: dict[str, Any] = {"temperature": 1.0, "max_tokens": 160}
STRAIGHT: dict[str, Any] = {"reasoning": False, **HOT}
"""Without a thought, which this model would never end."""
TEMPLATE = """\
{%- for tool in tools or [] %}{{ '<|system|>' + tool.function.name }}\
{{ '<tool_call></tool_call>' }}{% endfor %}\
{%- for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') }}\
{%- for call in m.tool_calls or [] %}{{ call.function.name + (call.function.arguments | tojson) }}\
{%- endfor %}{{ '<|end|>' }}{% endfor %}{{ '<|assistant|>' }}\
{%- if enable_thinking is defined and enable_thinking %}{{ '<think>\\n' }}{% endif %}"""
"""Shows tools in Hermes' way, and opens thoughts where it is asked to."""


class Person(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=120)


@dataclass
class Weather:
    sky: Literal["clear", "bewölkt", "曇り"]
    degrees: list[int]


def add(x: int, y: int = 0) -> int:
    """Add two numbers."""
    return x + y


def forecast(sky: Literal["clear", "bewölkt"]) -> str:
    """Tell the weather."""
    return f"The sky is {sky}"


@pytest.fixture(scope="module")
def calling(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("constrained") / "caller"
    return with_texts(bundle, folder, {"chat_template.jinja": TEMPLATE})


@pytest.fixture(scope="module")
def caller(calling: Path) -> Iterator[Engine]:
    with Engine(calling) as engine:
        yield engine


def test_an_answer_is_an_instance_of_a_model(engine: Engine) -> None:
    for seed in range(4):
        done = engine.chat(QUESTION, response_format=Person, seed=seed, **HOT)
        assert done.finish_reason == "stop"
        assert isinstance(done.parsed, Person)
        assert json.loads(done.text) == done.parsed.model_dump()


def test_an_answer_is_what_a_type_an_expression_or_a_grammar_says(engine: Engine) -> None:
    options: dict[str, Any] = {**HOT, "seed": 3, "max_tokens": 60}
    weather = engine.generate("Once", response_format=Weather, **options)
    if weather.finish_reason == "stop":
        assert isinstance(weather.parsed, Weather)
    assert weather.text.startswith('{"sky": "')
    assert len(engine.generate("Once", response_format=regex("[ab]{7}"), **options).parsed) == 7
    done = engine.generate("Once", response_format=grammar('root ::= "yes" | "no"'), **options)
    assert (done.parsed in ("yes", "no"), done.finish_reason) == (True, "stop")
    assert engine.generate("Once", response_format=Literal["é"], **options).parsed == "é"


def test_free_and_constrained_answers_run_side_by_side_as_they_would_alone(engine: Engine) -> None:
    free = engine.generate("Once", seed=1, **HOT)
    alone = engine.generate("Once", seed=1, response_format=Person, **HOT)
    running = [
        engine.submit("Once", seed=1, response_format=one, **HOT)
        for one in (None, Person, None, Person)
    ]
    done = [generation.result() for generation in running]
    assert [one.token_ids for one in done] == [free.token_ids, alone.token_ids] * 2


def test_choices_and_streams_follow_the_format_too(engine: Engine) -> None:
    found = engine.choices("Once", n=3, seed=5, response_format=Person, **HOT)
    assert all(isinstance(one.parsed, Person) for one in found)
    assert len({one.text for one in found}) > 1
    assert found[0].text == engine.generate("Once", seed=5, response_format=Person, **HOT).text
    with engine.chat(QUESTION, stream=True, seed=5, response_format=Person, **HOT) as stream:
        text = "".join(stream)
    assert stream.completion.parsed == Person.model_validate_json(text)


def test_a_format_is_followed_beside_other_options(engine: Engine) -> None:
    held: dict[str, Any] = {"response_format": Person, "seed": 2, **HOT}
    penalized = engine.generate("Once", repetition_penalty=1.3, frequency_penalty=0.5, **held)
    assert isinstance(penalized.parsed, Person)
    told = engine.generate("Once", logprobs=True, top_logprobs=2, **held)
    assert told.text == engine.generate("Once", **held).text
    assert told.logprobs is not None
    assert len(told.logprobs) == len(told.token_ids)
    assert isinstance(engine.generate("Once", ignore_eos=True, **held).parsed, Person)
    assert isinstance(engine.generate("Once", min_tokens=100, **held).parsed, Person)


def test_an_answer_that_was_cut_goes_on_in_its_format(engine: Engine) -> None:
    held: dict[str, Any] = {"response_format": Person, "temperature": 0}
    whole = engine.chat(QUESTION, max_tokens=160, **held)
    cut = engine.chat(QUESTION, max_tokens=9, **held)
    assert cut.finish_reason == "length"
    with pytest.raises(EdgewiseError) as caught:
        _ = cut.parsed
    assert caught.value.code == "input.answer"
    rest = engine.chat(QUESTION, begun=cut.token_ids, max_tokens=160, **held)
    assert rest.text == whole.text
    wrong = engine.tokenizer.encode("no", add_special_tokens=False)
    with pytest.raises(EdgewiseError) as caught:
        engine.chat(QUESTION, begun=wrong, **held)
    assert caught.value.code == "input.begun"


def test_nothing_was_asked_for_where_there_is_no_format(engine: Engine) -> None:
    with pytest.raises(EdgewiseError) as caught:
        _ = engine.generate("Once", max_tokens=1).parsed
    assert caught.value.code == "input.response_format"


def fed_back(done: Completion, calls: tuple[ToolCall, ...]) -> list[dict[str, Any]]:
    return [*QUESTION, done.message(), *(call.result(call.call()) for call in calls)]


@pytest.mark.parametrize("tool_format", ["hermes", "llama3", "mistral", "qwen3_coder", "json"])
def test_a_call_that_must_come_comes_and_its_result_goes_back(
    caller: Engine, tool_format: str
) -> None:
    told: dict[str, Any] = {"tools": [add, forecast], "tool_format": tool_format, **STRAIGHT}
    done = caller.chat(QUESTION, tool_choice=forecast, seed=1, **told)
    [call] = done.tool_calls
    assert (done.finish_reason, done.text, call.name) == ("tool_calls", "", "forecast")
    assert call.call() in ("The sky is clear", "The sky is bewölkt")
    messages = fed_back(done, done.tool_calls)
    assert f"<|tool|>{call.call()}<|end|>" in caller.render(messages, tools=[add, forecast])
    again = caller.chat(messages, tool_choice="none", seed=1, **{**told, "max_tokens": 5})
    assert again.tool_calls == ()


def test_several_calls_come_and_their_results_go_back(caller: Engine) -> None:
    several: list[Completion] = []
    for seed in range(30):
        told: dict[str, Any] = {"tools": [forecast], "seed": seed, **STRAIGHT}
        done = caller.chat(QUESTION, tool_choice="required", **told)
        assert len(done.tool_calls) >= 1
        assert all(call.call().startswith("The sky is ") for call in done.tool_calls)
        several += [done] if len(done.tool_calls) > 1 else []
    assert several
    prompt = caller.render(fed_back(several[0], several[0].tool_calls), tools=[forecast])
    assert prompt.count("<|tool|>The sky is ") == len(several[0].tool_calls)


def test_a_call_that_has_begun_by_itself_follows_the_tool_too(caller: Engine) -> None:
    begun = caller.tokenizer.encode("Hm. <tool_call>", add_special_tokens=False)
    for seed in range(8):
        done = caller.chat(QUESTION, tools=[forecast, add], begun=begun, seed=seed, **STRAIGHT)
        assert done.text.startswith("Hm.")
        assert done.tool_calls[0].name in ("forecast", "add") or done.finish_reason == "length"
        assert all(call.call() is not None for call in done.tool_calls)


UNSUPPORTED: dict[str, Any] = {
    "name": "lists",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}},
        "required": ["a"],
    },
}


def test_only_calls_that_must_come_need_a_schema_that_can_be_followed(caller: Engine) -> None:
    begun = caller.tokenizer.encode("<tool_call>", add_special_tokens=False)
    free: dict[str, Any] = {"tools": [UNSUPPORTED], "max_tokens": 5}
    assert caller.chat(QUESTION, begun=begun, **free).usage.completion_tokens > 0
    with pytest.raises(EdgewiseError) as caught:
        caller.chat(QUESTION, tool_choice="required", **free)
    assert caught.value.code.startswith("unsupported.")


def test_a_call_streams_in_fragments(caller: Engine) -> None:
    options: dict[str, Any] = {"tools": [add], "tool_choice": "required", "seed": 4, **STRAIGHT}
    with caller.chat(QUESTION, stream=True, **options) as stream:
        found = list(stream.deltas())
    [call, *_] = stream.completion.tool_calls
    begins = next(delta for delta in found if isinstance(delta, deltas.CallBegins))
    assert (begins.id, begins.name) == (call.id, "add")
    parts = [d.text for d in found if isinstance(d, deltas.Arguments) and d.index == 0]
    assert "".join(parts) == call.text


def test_a_thought_is_closed_after_its_budget_and_what_was_asked_for_follows(
    caller: Engine,
) -> None:
    for budget in (0, 5):
        options: dict[str, Any] = {"reasoning": {"enabled": True, "budget": budget}, "seed": 6}
        done = caller.chat(QUESTION, response_format=Person, **options, **HOT)
        assert isinstance(done.parsed, Person)
        assert done.written.count("</think>") == 1
        free = caller.chat(QUESTION, **options, max_tokens=40)
        assert free.written.count("</think>") == 1
        assert (free.reasoning == "") == (budget == 0)
        assert free.text != ""
        called = caller.chat(QUESTION, tools=[forecast], tool_choice="required", **options, **HOT)
        assert called.tool_calls[0].name == "forecast"


def test_everything_comes_through_asyncio_too(calling: Path) -> None:
    asyncio.run(_with_asyncio(calling))


async def _with_asyncio(calling: Path) -> None:
    async with await AsyncEngine.load(calling) as engine:
        told: dict[str, Any] = {"tools": [forecast], "tool_choice": "required", **STRAIGHT}
        done, person, text = await asyncio.gather(
            engine.chat(QUESTION, seed=1, **told),
            engine.chat(QUESTION, response_format=Person, seed=1, **STRAIGHT),
            _joined(engine),
        )
        assert isinstance(person.parsed, Person)
        assert text == person.text
        messages = fed_back(done, done.tool_calls)
        again = await engine.chat(messages, seed=2, **told)
        assert again.finish_reason in ("tool_calls", "length")


async def _joined(engine: AsyncEngine) -> str:
    stream = engine.stream_chat(QUESTION, response_format=Person, seed=1, **STRAIGHT)
    return "".join([piece async for piece in stream])


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"type": "regex", "pattern": "(?=a)"}, "unsupported.regex"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": 3}}}, "input.schema"),
        ({"type": "morse"}, "unsupported.response_format"),
        (3, "unsupported.type_hint"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(engine: Engine, wanted: Any, code: str) -> None:
    with pytest.raises(EdgewiseError) as caught:
        engine.chat(QUESTION, response_format=wanted)
    assert caught.value.code == code
