"""Calls of tools and what they gave, there and back, by the demo model: it cannot call tools, but
what it writes is held to be calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from edgewise import AsyncEngine, Completion, Engine
from edgewise_runtime.calls import FORMATS
from tests.sdk.other_texts import with_texts

QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "How is the weather?"}]
TEMPLATE = """\
{%- for tool in tools or [] %}{{ '<|im_start|>system\n' + tool.function.name }}\
{{ '<tool_call></tool_call><|im_end|>\n' }}{% endfor %}\
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}\
{%- for call in m.tool_calls or [] %}{{ call.function.name + (call.function.arguments | tojson) }}\
{%- endfor %}{{ '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}"""
HOT: dict[str, Any] = {"temperature": 1.0, "max_tokens": 250}
SEVERAL: dict[str, Any] = {**HOT, "min_tokens": 60}
"""Longer than one call is."""


def weather(sky: Literal["clear", "bewölkt", "曇り"], warm: bool = True) -> str:
    """Tell the weather."""
    return f"The sky is {sky}, warm: {warm}."


def clock() -> int:
    """Tell the hour."""
    return 12


TOOLS = [weather, clock]


@pytest.fixture(scope="module")
def calling(demo_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("round-trips") / "caller"
    return with_texts(demo_bundle, folder, {"chat_template.jinja": TEMPLATE})


@pytest.fixture(scope="module")
def caller(calling: Path) -> Iterator[Engine]:
    with Engine(calling) as engine:
        yield engine


def told_back(done: Completion) -> list[dict[str, Any]]:
    """The conversation with the calls and what they gave."""
    assert done.finish_reason == "tool_calls"
    assert done.text == ""
    results = [call.result(call.call()) for call in done.tool_calls]
    assert [one["tool_call_id"] for one in results] == [call.id for call in done.tool_calls]
    assert len({one["tool_call_id"] for one in results}) == len(results)
    return [*QUESTION, done.message(), *results]


def check_prompt(prompt: str, done: Completion) -> None:
    """The prompt has each call, and in the same order what it gave."""
    at = 0
    for call in done.tool_calls:
        at = prompt.index(f"{call.name}{{", at) + 1
    for call in done.tool_calls:
        at = prompt.index(f"<|im_start|>tool\n{call.call()}<|im_end|>", at) + 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_call_goes_there_and_back_in_each_format(caller: Engine, form: str) -> None:
    options: dict[str, Any] = {"tools": TOOLS, "tool_format": form, "seed": 2, **HOT}
    done = caller.chat(QUESTION, tool_choice=weather, **options)
    assert [call.name for call in done.tool_calls] == ["weather"]
    messages = told_back(done)
    check_prompt(caller.render(messages, tools=TOOLS), done)
    again = caller.chat(messages, tool_choice=clock, **options)
    assert [call.call() for call in again.tool_calls] == [12]


def test_several_calls_go_there_and_back(caller: Engine) -> None:
    several = 0
    for seed in range(12):
        told: dict[str, Any] = {"tools": TOOLS, "seed": seed, **SEVERAL}
        done = caller.chat(QUESTION, tool_choice="required", **told)
        messages = told_back(done)
        check_prompt(caller.render(messages, tools=TOOLS), done)
        several += len(done.tool_calls) > 1
        said = caller.chat(messages, tools=TOOLS, tool_choice="none", max_tokens=4, seed=seed)
        assert said.tool_calls == ()
    assert several > 0


def test_calls_go_there_and_back_with_asyncio(calling: Path) -> None:
    asyncio.run(_round_trips(calling))


async def _round_trips(calling: Path) -> None:
    async with await AsyncEngine.load(calling) as engine:

        async def round_trip(seed: int) -> int:
            options: dict[str, Any] = {"tools": TOOLS, "seed": seed, **HOT}
            several = {**options, **SEVERAL}
            done = await engine.chat(QUESTION, tool_choice="required", **several)
            messages = told_back(done)
            check_prompt(engine.render(messages, tools=TOOLS), done)
            again = await engine.chat(messages, tool_choice=clock, **options)
            assert [call.call() for call in again.tool_calls] == [12]
            return len(done.tool_calls)

        assert max(await asyncio.gather(*map(round_trip, range(12)))) > 1
