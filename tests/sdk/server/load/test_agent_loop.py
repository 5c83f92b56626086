"""An agent with 30 tools works for 20 turns: nearly all of each prompt comes from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.sdk.server.load.conftest import CONTEXT, MODEL, Served

pytestmark = pytest.mark.landing

TURNS = 20
TOOLS = 30
REPEATED = 210
"""A sentence, so that the last prompt nearly fills the context."""
LEAST = 0.95
"""Of a prompt's tokens, from the second turn on."""
RESULT = "The file has 40 lines, of which the last one is empty. " * 3


def parameters(number: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "path": {"enum": [f"src/{number}.py"], "description": "Which file, from the root."},
            "mode": {"enum": ["r", "w"], "description": "Whether it is read or written."},
        },
        "required": ["path", "mode"],
        "additionalProperties": False,
    }


def described(number: int) -> str:
    return f"Look at part {number} of the project, and say what is there. It may take a while."


def system(turn: int) -> str:
    """With a line that changes with every request, as a known agent's has."""
    return (
        f"x-anthropic-billing-header: cc_version=2.1.{turn}; cc_entrypoint=cli; cch={turn:05x};\n"
        + "You are an agent that works on a project of files, one step at a time. " * REPEATED
    )


@dataclass(frozen=True)
class Turn:
    """What the server counted of a request: tokens of its prompt, and those from the cache."""

    prompt: int
    cached: int


def over_anthropic(url: str) -> Iterator[Turn]:
    tools: list[Any] = [
        {"name": f"look_{n}", "description": described(n), "input_schema": parameters(n)}
        for n in range(TOOLS)
    ]
    messages: list[Any] = [{"role": "user", "content": "Look at everything."}]
    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        for turn in range(TURNS):
            answer = client.messages.create(
                model=MODEL,
                max_tokens=80,
                system=system(turn),
                tools=tools,
                tool_choice={"type": "tool", "name": f"look_{turn}"},
                thinking={"type": "disabled"},
                messages=messages,
            )
            cached = answer.usage.cache_read_input_tokens or 0
            yield Turn(answer.usage.input_tokens + cached, cached)
            (call,) = [block for block in answer.content if block.type == "tool_use"]
            result = {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}
            messages += [
                {"role": "assistant", "content": answer.content},
                {"role": "user", "content": [result]},
            ]


def over_openai(url: str) -> Iterator[Turn]:
    tools: list[Any] = [
        {
            "type": "function",
            "function": {
                "name": f"look_{n}",
                "description": described(n),
                "parameters": parameters(n),
            },
        }
        for n in range(TOOLS)
    ]
    messages: list[Any] = [{"role": "user", "content": "Look at everything."}]
    with OpenAI(base_url=f"{url}v1", api_key="none", max_retries=0) as client:
        for turn in range(TURNS):
            answer = client.chat.completions.create(
                model=MODEL,
                max_completion_tokens=80,
                messages=[{"role": "system", "content": system(turn)}, *messages],
                tools=tools,
                tool_choice={"type": "function", "function": {"name": f"look_{turn}"}},
                reasoning_effort="none",
            )
            usage = answer.usage
            assert usage is not None
            assert usage.prompt_tokens_details is not None
            yield Turn(usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens or 0)
            message = answer.choices[0].message
            (call,) = message.tool_calls or []
            result = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
            messages += [message.model_dump(exclude_none=True), result]


@pytest.mark.parametrize("agent", [over_anthropic, over_openai])
def test_from_the_second_turn_on_prompts_come_from_the_cache(
    served: Served, agent: Callable[[str], Iterator[Turn]]
) -> None:
    queries, hits = served.prefixes()
    first, *turns = agent(served.url)
    assert len(turns) == TURNS - 1
    assert [turn for turn in turns if turn.cached < LEAST * turn.prompt] == []
    assert [turn.prompt for turn in turns] == sorted(turn.prompt for turn in turns)
    assert CONTEXT * 0.95 < turns[-1].prompt < CONTEXT
    after = served.prefixes()
    looked, found = after[0] - queries, after[1] - hits
    assert looked == first.prompt + sum(turn.prompt for turn in turns)
    assert found == first.cached + sum(turn.cached for turn in turns)
