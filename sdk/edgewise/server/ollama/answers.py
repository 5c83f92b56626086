"""Answers as Ollama's API writes them: a line for each step, or one object for all of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import Any

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, NoCall, Reasoning
from edgewise.hosting.base import Call, Ended, Event, Said, TokenSaid
from edgewise.server.writing import written
from edgewise_runtime.errors import EdgewiseError, EngineError
from edgewise_runtime.text.json_text import read_json

REASONS = {"tool_calls": "stop"}
"""Why an answer ended, where Ollama has another word for it."""
_SECOND = 1_000_000_000  # nanoseconds


@dataclass(frozen=True)
class Part:
    """Some of an answer, or all of it."""

    text: str = ""
    thought: str = ""
    calls: tuple[Call, ...] = ()
    tokens: tuple[TokenSaid, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether a client would see nothing of it."""
        return not (self.text or self.thought or self.calls)


Write = Callable[[Part], dict[str, Any]]
"""Writes a part as an endpoint does."""
More = Callable[[Ended], Awaitable[dict[str, Any]]]
"""What else the last object says."""


@dataclass(frozen=True)
class Reply:
    """How the answer to one request is written.

    Attributes:
        model: as it was asked for.
        begun: when the request came, by `perf_counter_ns`.
        loading: nanoseconds that the model took to be there.
        logprobs: whether they were asked for.
    """

    model: str
    write: Write
    begun: int
    loading: int = 0
    logprobs: bool = False

    def chunk(self, part: Part) -> dict[str, Any]:
        """An object that others follow."""
        return {**self._head(part), "done": False}

    def last(self, part: Part, ended: Ended) -> dict[str, Any]:
        """The object that ends an answer, with what it took."""
        reason = REASONS.get(ended.finish_reason, ended.finish_reason)
        return {
            **self._head(part),
            "done": True,
            "done_reason": reason,
            **self._durations(),
            "prompt_eval_count": ended.usage.prompt_tokens,
            "prompt_eval_duration": round(ended.timings.get("prefill_s", 0.0) * _SECOND),
            "eval_count": ended.usage.completion_tokens,
            "eval_duration": round(ended.timings.get("decode_s", 0.0) * _SECOND),
        }

    def nothing(self, reason: str) -> dict[str, Any]:
        """The answer to a request that only loads the model, or has it leave."""
        return {**self._head(Part()), "done": True, "done_reason": reason, **self._durations()}

    def _head(self, part: Part) -> dict[str, Any]:
        head = {"model": self.model, "created_at": time_of(datetime.now(UTC)), **self.write(part)}
        if self.logprobs and part.tokens:
            head["logprobs"] = [_logprob(token) for token in part.tokens]
        return head

    def _durations(self) -> dict[str, int]:
        return {"total_duration": perf_counter_ns() - self.begun, "load_duration": self.loading}


async def lines(
    reply: Reply, events: AsyncGenerator[Event, None], more: More
) -> AsyncGenerator[str, None]:
    """An answer as lines, one for each step in which there is something to see."""
    parts = _Parts()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Said):
                if not (part := parts.next(event)).empty:
                    yield line(reply.chunk(part))
            else:
                last = reply.last(Part(tokens=parts.left()), event)
                yield line({**last, **await more(event)})


async def whole(reply: Reply, events: AsyncGenerator[Event, None], more: More) -> dict[str, Any]:
    """An answer as one object, once it has ended."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Ended):
                part = Part(event.text, event.reasoning, event.calls, event.tokens)
                return {**reply.last(part, event), **await more(event)}
    raise EngineError("The answer ended without an end.", remedy="Ask again.", code="engine.gone")


async def no_more(ended: Ended) -> dict[str, Any]:
    """Nothing else is said."""
    return {}


def line(value: dict[str, Any]) -> str:
    """A line of a stream."""
    return f"{written(value)}\n"


def error_of(error: EdgewiseError) -> dict[str, str]:
    """An error as Ollama's clients read it, with our code beside it."""
    return {"error": error.said, "code": error.code}


def calls_of(calls: Iterable[Call]) -> list[dict[str, Any]]:
    """Calls of tools as a message has them: arguments are an object."""
    return [
        {
            "id": call.id,
            "function": {"index": index, "name": call.name, "arguments": read_json(call.arguments)},
        }
        for index, call in enumerate(calls)
    ]


def time_of(moment: datetime) -> str:
    """A moment as RFC 3339 has it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _logprob(token: TokenSaid) -> dict[str, Any]:
    found = _likely(token.text, token.data, token.logprob)
    if token.top:
        found["top_logprobs"] = [_likely(*one) for one in token.top]
    return found


def _likely(text: str, data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(data)}


@dataclass
class _Parts:
    """What has come of an answer and was not written yet."""

    _tokens: list[TokenSaid] = field(default_factory=list)
    _calls: dict[int, tuple[CallBegins, list[str]]] = field(default_factory=dict)

    def next(self, said: Said) -> Part:
        """What can be written now; tokens wait for the text that they are part of."""
        self._tokens += said.tokens
        texts, thoughts, calls = [], [], []
        for delta in said.deltas:
            match delta:
                case Content(text):
                    texts.append(text)
                case Reasoning(text):
                    thoughts.append(text)
                case CallBegins(index):
                    self._calls[index] = delta, []
                case Arguments(index, text):
                    self._calls[index][1].append(text)
                case CallEnds(index):
                    begun, pieces = self._calls.pop(index)
                    calls.append(Call(begun.id, begun.name, "".join(pieces)))
                case NoCall(_, text):
                    texts.append(text)
        part = Part("".join(texts), "".join(thoughts), tuple(calls))
        return part if part.empty else Part(part.text, part.thought, part.calls, self.left())

    def left(self) -> tuple[TokenSaid, ...]:
        """Tokens that nothing was written of so far."""
        tokens, self._tokens = tuple(self._tokens), []
        return tokens
