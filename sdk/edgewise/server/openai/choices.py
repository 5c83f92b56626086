"""What answers have in common, however they are sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from edgewise.deltas import Arguments, CallBegins, CallEnds, Delta, NoCall
from edgewise.hosting.base import Ended, Event, Said, TokenSaid

FINISHED = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "timeout": "length"}
"""Why an answer ended, in OpenAI's words."""
LEAST_LOGPROB = -9999.0
"""In place of what JSON has no number for."""


def finished(ended: Ended) -> str:
    """Why a choice ended."""
    return FINISHED.get(ended.finish_reason, "stop")


async def whole(events: AsyncGenerator[Event, None]) -> list[Ended]:
    """The choices of an answer in their order; all of its events are read."""
    async with aclosing(events):
        ended = [event async for event in events if isinstance(event, Ended)]
    return sorted(ended, key=lambda one: one.index)


def usage_of(ended: Iterable[Ended]) -> dict[str, Any]:
    """What all choices took: their prompt counts once."""
    choices = list(ended)
    every = [one.usage for one in choices]
    prompt = max((one.prompt_tokens for one in every), default=0)
    cached = min((one.cached_tokens for one in every), default=0)
    thought = sum(one.thought_tokens for one in choices)
    return usage_json(prompt, sum(one.completion_tokens for one in every), cached, thought)


def usage_json(prompt: int, completion: int, cached: int, thought: int = 0) -> dict[str, Any]:
    """Tokens as the API counts them; those that were thought are of the completion's."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def logprobs_of(tokens: Sequence[TokenSaid]) -> dict[str, Any]:
    """How likely tokens were, with their bytes."""
    content = [
        {
            **_token(token.text, token.data, token.logprob),
            "top_logprobs": [_token(*one) for one in token.top],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _token(text: str, data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": finite(logprob), "bytes": list(data)}


def finite(logprob: float) -> float:
    """A log-probability that JSON has a number for."""
    return max(logprob, LEAST_LOGPROB)


async def with_one_call(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The same events without calls after the first of each choice (`parallel_tool_calls`).

    Nothing holds the model to it, so later calls are left out where they are read.
    """
    kept: dict[int, int] = {}
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Ended):
                yield replace(event, calls=event.calls[:1])
            else:
                yield _of_one_call(event, kept)


def _of_one_call(said: Said, kept: dict[int, int]) -> Said:
    deltas: list[Delta] = []
    for delta in said.deltas:
        if isinstance(delta, CallBegins):
            kept.setdefault(said.index, delta.index)
        if isinstance(delta, CallBegins | Arguments | CallEnds):
            if delta.index == kept.get(said.index):
                deltas.append(delta)
            continue
        if isinstance(delta, NoCall) and delta.index == kept.get(said.index, -1):
            del kept[said.index]
        deltas.append(delta)
    return replace(said, deltas=tuple(deltas))
