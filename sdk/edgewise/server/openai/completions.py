"""``POST /v1/completions``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.deltas import Content, NoCall
from edgewise.hosting.base import Ended, Event, Facts, Hosted, Models, Said, TokenSaid
from edgewise.server.openai.choices import finished, finite, usage_json, whole
from edgewise.server.openai.completions_request import CompletionRequest
from edgewise.server.openai.failing import failed_frame
from edgewise.server.openai.together import together
from edgewise.server.openai.writing import DONE, fingerprint
from edgewise.server.reading import read_body
from edgewise.server.streaming import begun, sse, while_there
from edgewise.server.writing import frame, json_response, new_id


class CompletionsApi:
    """Goes on with texts."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def create(self, request: Request) -> Response:
        """The continuations of prompts, whole or in chunks."""
        asked = await read_body(request, CompletionRequest)
        if asked.stream:
            return sse(await begun(request, self._frames(asked)), failed=failed_frame)
        return json_response(await while_there(request, self._whole(asked)))

    async def _whole(self, asked: CompletionRequest) -> dict[str, Any]:
        return await answered(await self._models.get(asked.model), asked)

    async def _frames(self, asked: CompletionRequest) -> AsyncGenerator[str, None]:
        hosted = await self._models.get(asked.model)
        texts = await _Texts.of(asked, hosted)
        ended: list[Ended] = []
        blank = {"usage": None} if asked.with_usage else {}
        async with aclosing(_events(asked, hosted)) as events:
            async for event in events:
                if isinstance(event, Ended):
                    ended.append(event)
                for choice in texts.pieces(event):
                    yield frame(texts.written([choice], **blank))
        if asked.with_usage:
            yield frame(texts.written([], usage=texts.usage(ended)))
        yield DONE


async def answered(hosted: Hosted, asked: CompletionRequest) -> dict[str, Any]:
    """The whole answer of a model."""
    texts = await _Texts.of(asked, hosted)
    ended = await whole(_events(asked, hosted))
    return texts.written([texts.choice(one) for one in ended], usage=texts.usage(ended))


def _events(asked: CompletionRequest, hosted: Hosted) -> AsyncGenerator[Event, None]:
    sources = [hosted.ask(one) for one in asked.asks()]
    return sources[0] if len(sources) == 1 else together(sources, asked.choices)


@dataclass
class _Texts:
    """Writes the choices of one request.

    Attributes:
        choices: of each prompt.
        echoed: what goes before the text of each prompt's choices; empty where nothing does.
    """

    model: str
    facts: Facts
    choices: int
    logprobs: bool
    echoed: Sequence[str]
    id: str = field(default_factory=lambda: new_id("cmpl-"))
    created: int = field(default_factory=lambda: int(time()))
    _lengths: dict[int, int] = field(default_factory=dict)

    @staticmethod
    async def of(asked: CompletionRequest, hosted: Hosted) -> _Texts:
        """For what was asked of a model."""
        echoed = []
        for prompt in asked.prompts if asked.echo else []:
            shown = prompt if isinstance(prompt, str) else await hosted.detokenize(prompt)
            echoed.append(shown)
        return _Texts(asked.model, hosted.facts, asked.choices, asked.logprobs is not None, echoed)

    def written(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """An answer, or a chunk of one."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": fingerprint(self.facts),
            "choices": choices,
            **more,
        }

    def choice(self, ended: Ended) -> dict[str, Any]:
        """A choice as a whole."""
        text = self._before(ended.index) + ended.text
        return self._choice(ended.index, text, self._likely(ended.tokens, 0), finished(ended))

    def pieces(self, event: Event) -> Iterator[dict[str, Any]]:
        """What an event adds to a choice."""
        if event.index not in self._lengths:
            self._lengths[event.index] = 0
            if before := self._before(event.index):
                yield self._choice(event.index, before, None, None)
        if isinstance(event, Ended):
            yield self._choice(event.index, "", None, finished(event))
        elif (text := _text(event)) or event.tokens:
            likely = self._likely(event.tokens, self._lengths[event.index])
            self._lengths[event.index] += sum(len(token.text) for token in event.tokens)
            yield self._choice(event.index, text, likely, None)

    def usage(self, ended: Sequence[Ended]) -> dict[str, Any]:
        """What all choices took: each prompt counts once."""
        firsts = [one.usage for one in ended if one.index % self.choices == 0]
        return usage_json(
            sum(one.prompt_tokens for one in firsts),
            sum(one.usage.completion_tokens for one in ended),
            sum(one.cached_tokens for one in firsts),
        )

    def _before(self, index: int) -> str:
        return self.echoed[index // self.choices] if self.echoed else ""

    def _choice(
        self, index: int, text: str, likely: dict[str, Any] | None, reason: str | None
    ) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": likely, "finish_reason": reason}

    def _likely(self, tokens: Sequence[TokenSaid], offset: int) -> dict[str, Any] | None:
        if not self.logprobs:
            return None
        offsets = []
        for token in tokens:
            offsets.append(offset)
            offset += len(token.text)
        return {
            "tokens": [_named(token.text, token.data) for token in tokens],
            "token_logprobs": [finite(token.logprob) for token in tokens],
            "top_logprobs": [
                {_named(text, data): finite(value) for text, data, value in token.top}
                for token in tokens
            ],
            "text_offset": offsets,
        }


def _text(said: Said) -> str:
    return "".join(one.text for one in said.deltas if isinstance(one, Content | NoCall))


def _named(text: str, data: bytes) -> str:
    """A token as the API names it: those that are no whole characters by their bytes."""
    if text.encode() == data:
        return text
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
