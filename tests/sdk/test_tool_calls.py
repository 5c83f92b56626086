"""Tools and thoughts in chats: what the model is told, and what comes of its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine, Completion, EdgewiseError, Engine, deltas
from tests.sdk.other_texts import with_texts

TEMPLATE = """\
{%- if tools %}{{ '<|system|>' }}{% for tool in tools %}{{ tool.function.name }}{% endfor %}\
{{ '<tool_call></tool_call><|end|>' }}{% endif %}\
{%- for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') }}\
{%- for call in m.tool_calls or [] %}{{ call.function.name + (call.function.arguments | tojson) }}\
{%- endfor %}{{ '<|end|>' }}{% endfor %}{{ '<|assistant|>' }}\
{%- if enable_thinking is defined and enable_thinking %}{{ '<think>\\n' }}{% endif %}"""
CALL = '<tool_call>\n{"name": "add", "arguments": {"x": 1, "y": 2}}\n</tool_call>'
EOS = 1
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "1 + 2?"}]
ENDS: dict[str, Any] = {"logit_bias": {EOS: 10_000}, "max_tokens": 4}
"""The next token is the end."""


def add(x: int, y: int = 0) -> int:
    """Add two numbers."""
    return x + y


def forecast(city: str) -> str:
    """Tell the weather."""
    return f"Sun in {city}"


@pytest.fixture(scope="module")
def calling(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny bundle with a template that shows tools, in Hermes' way, and opens thoughts."""
    folder = tmp_path_factory.mktemp("calling") / "caller"
    return with_texts(bundle, folder, {"chat_template.jinja": TEMPLATE})


@pytest.fixture(scope="module")
def caller(calling: Path) -> Iterator[Engine]:
    with Engine(calling) as engine:
        yield engine


def after(engine: Engine, text: str, **options: Any) -> Completion:
    """What comes of an answer that has this text and then ends."""
    begun = engine.tokenizer.encode(text, add_special_tokens=False)
    return engine.chat(QUESTION, begun=begun, **{**ENDS, **options})


def test_a_call_and_what_it_gave_go_back_to_the_model(caller: Engine) -> None:
    done = after(caller, f"Wait.\n{CALL}\n{CALL}", tools=[add])
    assert (done.text, done.finish_reason) == ("Wait.", "tool_calls")
    assert [call.call() for call in done.tool_calls] == [3, 3]
    results = [call.result(call.call()) for call in done.tool_calls]
    prompt = caller.render([*QUESTION, done.message(), *results], tools=[add])
    called = 'add{"x": 1, "y": 2}'
    assert f"<|assistant|>Wait.{called}{called}<|end|><|tool|>3<|end|><|tool|>3<|end|>" in prompt


def test_a_call_goes_on_where_it_was_cut(caller: Engine) -> None:
    begun = caller.tokenizer.encode(CALL[:-1], add_special_tokens=False)
    last = caller.tokenizer.encode(">", add_special_tokens=False)
    assert len(last) == 1
    generation = caller.submit_chat(
        QUESTION, tools=[add], begun=begun, logit_bias={last[0]: 10_000}, max_tokens=1
    )
    found = [delta for piece in generation for delta in piece.deltas]
    assert [type(delta) for delta in found] == []  # the call had ended with its last brace
    [done] = generation.results()
    assert (done.finish_reason, done.tool_calls[0].arguments) == ("length", {"x": 1, "y": 2})


def test_arguments_come_as_they_are_written(caller: Engine) -> None:
    end = CALL.index(" 2}}") + 1
    begun = caller.tokenizer.encode(CALL[:end], add_special_tokens=False)
    [digit] = caller.tokenizer.encode("2", add_special_tokens=False)
    with caller.chat(
        QUESTION,
        stream=True,
        tools=[add],
        begun=begun,
        logit_bias={digit: 10_000},
        max_tokens=2,
    ) as stream:
        found = list(stream.deltas())
    assert "".join(d.text for d in found if isinstance(d, deltas.Arguments)) == "22"
    [taken_back] = [delta for delta in found if isinstance(delta, deltas.NoCall)]
    assert taken_back.index == 0
    assert stream.completion.text == taken_back.text == f"{CALL[:end]}22"


def test_of_tools_that_may_not_be_called_a_model_is_told_nothing(caller: Engine) -> None:
    plain = caller.chat(QUESTION, max_tokens=1)
    none = caller.chat(QUESTION, tools=[add], tool_choice="none", max_tokens=1)
    assert none.usage.prompt_tokens == plain.usage.prompt_tokens
    shown = caller.chat(QUESTION, tools=[add], tool_choice="auto", max_tokens=1)
    assert shown.usage.prompt_tokens > plain.usage.prompt_tokens
    done = after(caller, CALL, tools=[add], tool_choice="none")
    assert (done.text, done.tool_calls, done.finish_reason) == (CALL, (), "stop")


def test_another_format_can_be_named(caller: Engine) -> None:
    text = '[TOOL_CALLS]add[ARGS]{"x": 1}'
    assert after(caller, text, tools=[add]).text == text
    done = after(caller, text, tools=[add], tool_format="mistral")
    assert [call.arguments for call in done.tool_calls] == [{"x": 1}]


def test_thoughts_are_switched_by_the_template(caller: Engine) -> None:
    thought = after(caller, "Hm.\n</think>\n\nYes.", reasoning=True)
    assert (thought.reasoning, thought.text) == ("Hm.", "Yes.")
    plain = after(caller, "Hm.\n</think>\n\nYes.", reasoning=False)
    assert (plain.reasoning, plain.text) == ("", "Hm.\n</think>\n\nYes.")
    assert thought.usage.prompt_tokens > plain.usage.prompt_tokens


def test_what_a_prompt_asks_of_the_model_is_read_only_where_one_says_so(caller: Engine) -> None:
    prompt = f"<|assistant|><think>\nHm.</think>{CALL}"
    done = caller.generate(prompt, **ENDS)
    assert (done.text, done.reasoning) == ("", "")
    [digit] = caller.tokenizer.encode("7", add_special_tokens=False)
    sevens: dict[str, Any] = {"logit_bias": {digit: 10_000}, "max_tokens": 3}
    assert caller.generate("<think>\n", **sevens).text == "777"
    assert caller.generate("<think>\n", tools=[add], **sevens).reasoning == "777"
    ids = caller.tokenizer.encode("<think>\n")
    [told] = caller.choices(ids, n=1, tools=[add], **sevens)
    assert (told.text, told.reasoning) == ("", "777")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"tool_choice": "sometimes"}, "input.tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "sub"}}}, "input.tool_choice"),
        ({"tool_choice": forecast}, "input.tool_choice"),
        ({"response_format": "json"}, "input.response_format"),
        ({"tool_format": "morse"}, "unsupported.calls"),
        ({"tool_format": 3}, "input.tool_format"),
        ({"reasoning": "low"}, "unsupported.reasoning"),
        ({"reasoning": "a lot"}, "input.reasoning"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    caller: Engine, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(EdgewiseError) as caught:
        caller.chat(QUESTION, tools=[add], **options)
    assert caught.value.code == code


def test_a_template_without_a_switch_refuses_one(engine: Engine) -> None:
    for reasoning in (True, False):
        with pytest.raises(EdgewiseError) as caught:
            engine.chat(QUESTION, reasoning=reasoning)
        assert caught.value.code == "unsupported.reasoning"


def test_a_call_comes_through_asyncio_too(calling: Path) -> None:
    asyncio.run(_call_with_asyncio(calling))


async def _call_with_asyncio(calling: Path) -> None:
    async with await AsyncEngine.load(calling) as engine:
        begun = engine.tokenizer.encode(CALL, add_special_tokens=False)
        done = await engine.chat(QUESTION, tools=[add], begun=begun, **ENDS)
        assert [call.call() for call in done.tool_calls] == [3]
        assert json.loads(done.tool_calls[0].text) == {"x": 1, "y": 2}
        thought = engine.tokenizer.encode("<think>Hm", add_special_tokens=False)
        pieces = [
            piece async for piece in await engine.submit_chat(QUESTION, begun=thought, max_tokens=3)
        ]
        told = [delta for piece in pieces for delta in piece.deltas]
        assert {type(delta) for delta in told} <= {deltas.Reasoning}
