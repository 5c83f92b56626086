"""The endpoints that ask models: load what is asked for, translate, and send what comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hosting.base import Ask, Hosted, Models
from edgewise.server.ollama.answers import (
    More,
    Reply,
    Write,
    error_of,
    line,
    lines,
    no_more,
    whole,
)
from edgewise.server.ollama.chat import chat_of, chat_part
from edgewise.server.ollama.generate import check_prompt, context_of, generate_part, prompt_of
from edgewise.server.ollama.keeping import seconds_of
from edgewise.server.ollama.names import named
from edgewise.server.ollama.options import Options, warning_of
from edgewise.server.ollama.requests import Answered, ChatRequest, GenerateRequest
from edgewise.server.reading import read_body
from edgewise.server.streaming import begun, ndjson, while_there
from edgewise.server.writing import json_response


@dataclass(frozen=True)
class _Question:
    """What a request comes to, for a model that is there."""

    ask: Ask
    options: Options
    more: More = no_more


class AnsweringApi:
    """Answers of models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def chat(self, request: Request) -> Response:
        """The next turn of a conversation; without messages the model is only loaded."""
        asked = await read_body(request, ChatRequest)

        async def question(hosted: Hosted) -> _Question:
            return _Question(*chat_of(asked, hosted.facts))

        only_loads = not asked.messages
        return await self._answer(request, asked, chat_part, None if only_loads else question)

    async def generate(self, request: Request) -> Response:
        """What follows a prompt; without one the model is only loaded."""
        asked = await read_body(request, GenerateRequest)
        check_prompt(asked)

        async def question(hosted: Hosted) -> _Question:
            ask, options = await prompt_of(asked, hosted)
            more = no_more if asked.raw else partial(context_of, ask, hosted=hosted)
            return _Question(ask, options, more)

        return await self._answer(request, asked, generate_part, question if asked.prompt else None)

    async def _answer(
        self,
        request: Request,
        asked: Answered,
        write: Write,
        question: Callable[[Hosted], Awaitable[_Question]] | None,
    ) -> Response:
        """Ask the model; without a question it is loaded, or leaves."""
        started = perf_counter_ns()
        name = named(asked.model, self._models.names())
        keep_alive_s = seconds_of(asked.keep_alive)
        if question is None and keep_alive_s == 0 and not self._is_loaded(name):
            return json_response(Reply(asked.model, write, started).nothing("unload"))
        get = self._models.get(name, keep_alive_s=keep_alive_s)
        hosted = await while_there(request, get)
        loading = perf_counter_ns() - started
        reply = Reply(asked.model, write, started, loading, bool(asked.logprobs))
        if question is None:
            return json_response(reply.nothing("load" if keep_alive_s != 0 else "unload"))
        found = await question(hosted)
        headers = warning_of(found.options.ignored)
        events = hosted.ask(found.ask)
        if asked.stream is False:
            value = await while_there(request, whole(reply, events, found.more))
            return json_response(value, headers=headers)
        told = await begun(request, lines(reply, events, found.more))
        return ndjson(told, headers=headers, failed=lambda error: line(error_of(error)))

    def _is_loaded(self, name: str) -> bool:
        return any(one.hosted.facts.name == name for one in self._models.loaded())
