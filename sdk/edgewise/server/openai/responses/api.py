"""``POST /v1/responses``, and what was kept of earlier ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Ended, Event, Hosted, Models, Said
from edgewise.server.openai.choices import with_one_call
from edgewise.server.openai.failing import body_of
from edgewise.server.openai.responses.items import Items
from edgewise.server.openai.responses.request import ResponseRequest
from edgewise.server.openai.responses.store import Store
from edgewise.server.reading import read_body
from edgewise.server.streaming import begun, sse, while_there
from edgewise.server.writing import json_response, new_id, written
from edgewise_runtime.errors import EdgewiseError


class ResponsesApi:
    """Answers items with items."""

    def __init__(self, models: Models, store: Store | None = None) -> None:
        self._models = models
        self._store = store or Store()

    async def create(self, request: Request) -> Response:
        """The next items of a conversation, whole or as events."""
        asked = await read_body(request, ResponseRequest)
        if asked.stream:
            numbered = _Numbered()
            events = await begun(request, self._frames(asked, numbered))
            return sse(events, failed=numbered.failed_frame)
        return json_response(await while_there(request, self._whole(asked)))

    async def retrieve(self, request: Request) -> Response:
        """A response that is kept."""
        return json_response(self._store.get(request.path_params["name"]).response)

    async def delete(self, request: Request) -> Response:
        """Keep a response no longer."""
        name = request.path_params["name"]
        self._store.drop(name)
        return json_response({"id": name, "object": "response", "deleted": True})

    async def _whole(self, asked: ResponseRequest) -> dict[str, Any]:
        hosted = await self._models.get(asked.model)
        answer = _Answer(asked, self._conversation(asked))
        async with aclosing(_events(hosted, answer)) as events:
            async for event in events:
                for _ in answer.of(event):
                    pass
        return self._kept(answer)

    async def _frames(
        self, asked: ResponseRequest, numbered: _Numbered
    ) -> AsyncGenerator[str, None]:
        hosted = await self._models.get(asked.model)
        answer = _Answer(asked, self._conversation(asked))
        first = True
        async with aclosing(_events(hosted, answer)) as events:
            async for event in events:
                for told in (*answer.begin(), *answer.of(event)) if first else answer.of(event):
                    yield numbered.frame(told)
                first = False
        response = self._kept(answer)
        yield numbered.frame({"type": f"response.{response['status']}", "response": response})

    def _conversation(self, asked: ResponseRequest) -> list[dict[str, Any]]:
        before = asked.previous_response_id
        earlier = [] if before is None else self._store.get(before).messages
        return [*earlier, *asked.messages()]

    def _kept(self, answer: _Answer) -> dict[str, Any]:
        response = answer.response()
        if answer.asked.store is not False:
            self._store.keep(response, [*answer.messages, answer.message()])
        return response


def _events(hosted: Hosted, answer: _Answer) -> AsyncGenerator[Event, None]:
    events = hosted.ask(answer.asked.ask(hosted.facts, answer.messages))
    return with_one_call(events) if answer.asked.parallel_tool_calls is False else events


@dataclass
class _Answer:
    """One response on its way.

    Attributes:
        messages: the conversation it answers, without instructions.
    """

    asked: ResponseRequest
    messages: list[dict[str, Any]]
    id: str = field(default_factory=lambda: new_id("resp_"))
    created: int = field(default_factory=lambda: int(time()))
    ended: Ended | None = None
    _items: Items = field(init=False)

    def __post_init__(self) -> None:
        self._items = Items(logprobs=self.asked.logprobs)

    def begin(self) -> Iterator[dict[str, Any]]:
        """The first events of a stream."""
        for kind in ("created", "in_progress"):
            yield {"type": f"response.{kind}", "response": self.response()}

    def of(self, event: Event) -> Iterator[dict[str, Any]]:
        """The events that an event of the model makes."""
        if isinstance(event, Said):
            yield from self._items.of(event)
        else:
            self.ended = event
            yield from self._items.end("completed" if self._is_whole() else "incomplete")

    def message(self) -> dict[str, Any]:
        """The answer as a message of the conversation."""
        ended = self.ended
        if ended is None:
            return {"role": "assistant", "content": ""}
        message: dict[str, Any] = {"role": "assistant", "content": ended.text}
        if ended.reasoning:
            message["reasoning_content"] = ended.reasoning
        if ended.calls:
            message["content"] = ended.text or None
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in ended.calls
            ]
        return message

    def response(self) -> dict[str, Any]:
        """The response as it is now."""
        asked, whole = self.asked, self._is_whole()
        cut = {"reason": "max_output_tokens"}
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": int(time()) if whole else None,
            "status": self._status(),
            "error": None,
            "incomplete_details": None if whole or self.ended is None else cut,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": asked.metadata or {},
            "model": asked.model,
            "output": list(self._items.output),
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
            "previous_response_id": asked.previous_response_id,
            "reasoning": {
                "effort": asked.reasoning.effort if asked.reasoning else None,
                "summary": None,
            },
            "store": asked.store is not False,
            "temperature": asked.temperature,
            "text": {"format": (asked.text and asked.text.format) or {"type": "text"}},
            "tool_choice": "auto" if asked.tool_choice is None else asked.tool_choice,
            "tools": asked.tools or [],
            "top_logprobs": asked.top_logprobs,
            "top_p": asked.top_p,
            "truncation": asked.truncation or "disabled",
            "usage": self._usage(),
        }

    def _is_whole(self) -> bool:
        return self.ended is not None and self.ended.finish_reason in ("stop", "tool_calls")

    def _status(self) -> str:
        if self.ended is None:
            return "in_progress"
        return "completed" if self._is_whole() else "incomplete"

    def _usage(self) -> dict[str, Any] | None:
        if self.ended is None:
            return None
        usage = self.ended.usage
        return {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": self.ended.thought_tokens},
            "total_tokens": usage.total_tokens,
        }


class _Numbered:
    """Writes the events of a stream, each with its number."""

    def __init__(self) -> None:
        self._numbers = count()

    def frame(self, event: dict[str, Any]) -> str:
        """An event, the next one."""
        told = {**event, "sequence_number": next(self._numbers)}
        return f"event: {told['type']}\ndata: {written(told)}\n\n"

    def failed_frame(self, error: EdgewiseError) -> str:
        """The last event of a stream that an error ended."""
        return self.frame({**body_of(error)["error"], "type": "error"})
