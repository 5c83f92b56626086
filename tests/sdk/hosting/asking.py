"""What tests ask models, and what they look for in what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from edgewise.deltas import Content
from edgewise.hosting.base import Ask, Ended, Event, Hosted, Said
from tests.sdk.gate import PATIENCE

TEXT = "The quick brown fox"
MESSAGES = [{"role": "user", "content": "Hello"}]
LONG: dict[str, Any] = {"max_tokens": 200, "ignore_eos": True, "logprobs": True}
"""Each token is a step, and is told: others have time to do something meanwhile."""
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        },
    },
}


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario, but not for ever."""
    asyncio.run(asyncio.wait_for(scenario, PATIENCE))


async def events(model: Hosted, ask: Ask) -> list[Event]:
    return [event async for event in model.ask(ask)]


def ended(found: list[Event]) -> list[Ended]:
    return [event for event in found if isinstance(event, Ended)]


def content(found: list[Event], index: int = 0) -> str:
    return "".join(
        delta.text
        for event in found
        if isinstance(event, Said) and event.index == index
        for delta in event.deltas
        if isinstance(delta, Content)
    )


async def used(model: Hosted) -> int:
    """KV pages in use once a later request is through, and with it what came before."""
    await events(model, Ask(prompt="1", options={"max_tokens": 1}))
    return int((await model.metrics())["kv_pages_used"])
