"""``POST /v1/messages`` and ``POST /v1/messages/count_tokens``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Ask, Ended, Hosted, Models
from edgewise.server.anthropic.answer import Answer
from edgewise.server.anthropic.blocks import Told
from edgewise.server.anthropic.failing import failed_frame, named
from edgewise.server.anthropic.request import CountRequest, MessagesRequest
from edgewise.server.reading import read_body
from edgewise.server.streaming import begun, sse, while_there
from edgewise.server.writing import frame, json_response
from edgewise_runtime.errors import EngineError, UnsupportedError


class MessagesApi:
    """Answers conversations, and counts their tokens."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def create(self, request: Request) -> Response:
        """The next turn of a conversation, whole or in events."""
        asked = await read_body(request, MessagesRequest)
        if asked.stream:
            events = await begun(request, self._frames(asked))
            return sse(events, headers=named(), failed=failed_frame)
        return json_response(await while_there(request, self._whole(asked)), headers=named())

    async def count(self, request: Request) -> Response:
        """How many tokens a conversation has."""
        asked = await read_body(request, CountRequest)
        return json_response(await while_there(request, self._counted(asked)), headers=named())

    async def _counted(self, asked: CountRequest) -> dict[str, int]:
        hosted = await self._models.get(asked.model)
        _, tokens = await counted(hosted, asked.ask())
        return {"input_tokens": tokens}

    async def _whole(self, asked: MessagesRequest) -> dict[str, Any]:
        hosted = await self._models.get(asked.model)
        answer, ended = Answer(asked), None
        async with aclosing(hosted.ask(await _fitting(hosted, asked))) as events:
            async for event in events:
                ended = event if isinstance(event, Ended) else ended
                for _ in answer.of(event):
                    pass
        if ended is None:
            raise EngineError("The answer has no end.", code="engine.answer")
        return answer.whole(ended)

    async def _frames(self, asked: MessagesRequest) -> AsyncGenerator[str, None]:
        async with aclosing(self._events(asked)) as events:
            async for event in events:
                yield f"event: {event['type']}\n{frame(event)}"

    async def _events(self, asked: MessagesRequest) -> AsyncGenerator[Told, None]:
        hosted = await self._models.get(asked.model)
        # What is told first has the size of the prompt. Its text is then kept as tokens, so that
        # asking does not take as long again.
        ask, tokens = await counted(hosted, asked.ask())
        answer, begins = Answer(asked, tokens), True
        try:
            async with aclosing(hosted.ask(ask)) as events:
                async for event in events:
                    # Not before the first: an error before it still has a status.
                    for one in answer.begin() if begins else ():
                        yield one
                    begins = False
                    for one in answer.of(event):
                        yield one
        except Exception:
            for one in answer.broken():
                yield one
            raise


async def counted(hosted: Hosted, ask: Ask) -> tuple[Ask, int]:
    """What a model is asked, and the tokens of its prompt.

    Of a model that always thinks no switch is asked for.

    Raises as `Hosted.count`.
    """
    try:
        return ask, await hosted.count(ask)
    except UnsupportedError as error:
        reasoning = ask.options["reasoning"]
        on = reasoning is not None and reasoning.get("enabled") is True
        if error.code != "unsupported.reasoning" or not on:
            raise
        if "thinking" not in hosted.facts.capabilities:
            raise
        left = {name: value for name, value in reasoning.items() if name != "enabled"}
        ask = replace(ask, options={**ask.options, "reasoning": left})
        return ask, await hosted.count(ask)


async def _fitting(hosted: Hosted, asked: MessagesRequest) -> Ask:
    """What a model is asked; it is counted only where that may change it."""
    ask = asked.ask()
    return ask if ask.options["reasoning"] is None else (await counted(hosted, ask))[0]
