"""``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Event, Hosted, Models
from edgewise.server.openai.chat_request import ChatRequest
from edgewise.server.openai.chat_writing import Chunks, completion
from edgewise.server.openai.choices import whole, with_one_call
from edgewise.server.openai.failing import failed_frame
from edgewise.server.openai.writing import DONE
from edgewise.server.reading import read_body
from edgewise.server.streaming import begun, sse, while_there
from edgewise.server.writing import frame, json_response


class ChatApi:
    """Answers conversations."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def create(self, request: Request) -> Response:
        """The next turn of a conversation, whole or in chunks."""
        asked = await read_body(request, ChatRequest)
        if asked.stream:
            return sse(await begun(request, self._frames(asked)), failed=failed_frame)
        return json_response(await while_there(request, self._whole(asked)))

    async def _whole(self, asked: ChatRequest) -> dict[str, Any]:
        return await answered(await self._models.get(asked.model), asked)

    async def _frames(self, asked: ChatRequest) -> AsyncGenerator[str, None]:
        hosted = await self._models.get(asked.model)
        chunks = Chunks(
            asked.model,
            hosted.facts,
            logprobs=bool(asked.logprobs),
            with_usage=asked.with_usage,
        )
        async with aclosing(_events(hosted, asked)) as events:
            async for event in events:
                for chunk in chunks.of(event):
                    yield frame(chunk)
        for chunk in chunks.last():
            yield frame(chunk)
        yield DONE


async def answered(hosted: Hosted, asked: ChatRequest) -> dict[str, Any]:
    """The whole answer of a model."""
    ended = await whole(_events(hosted, asked))
    return completion(asked.model, hosted.facts, ended, logprobs=bool(asked.logprobs))


def _events(hosted: Hosted, asked: ChatRequest) -> AsyncGenerator[Event, None]:
    events = hosted.ask(asked.ask(hosted.facts))
    return with_one_call(events) if asked.parallel_tool_calls is False else events
