"""An agent that works with tools has the cache give nearly all of each prompt."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic

from tests.sdk.server.anthropic.conftest import FORECAST, MODEL

SYSTEM = "You are an agent that looks at the sky, and says what is there. " * 8
TURNS = 6
SEEDS = 20
PAGE = 32


def test_from_the_second_turn_on_prompts_come_from_the_cache(client: Anthropic) -> None:
    messages: list[Any] = [{"role": "user", "content": "How is the weather over the sea?"}]
    told: dict[str, Any] = {
        "model": MODEL,
        "system": SYSTEM,
        "tools": [FORECAST],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "thinking": {"type": "disabled"},
        "max_tokens": 160,
    }
    before = 0
    for turn in range(TURNS):
        for seed in range(SEEDS):  # the model is no good, and not every answer has a whole call
            with client.messages.stream(
                **told, messages=messages, extra_body={"seed": seed}
            ) as stream:
                answer = stream.get_final_message()
            if not seed:
                usage = answer.usage
            if answer.stop_reason == "tool_use":
                break
        cached = usage.cache_read_input_tokens or 0
        prompt = usage.input_tokens + cached
        if turn:
            # All that was there before is, but for the page that the new turn begins in.
            assert cached >= before - PAGE
            assert cached > 0.7 * prompt
        before = prompt
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "Clear, and a light wind."}
            for block in answer.content
            if block.type == "tool_use"
        ]
        assert results
        messages += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": results},
        ]
