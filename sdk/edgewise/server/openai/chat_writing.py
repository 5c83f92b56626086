"""Answers of ``POST /v1/chat/completions``: whole, and in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, Delta, NoCall, Reasoning
from edgewise.hosting.base import Call, Ended, Event, Facts, Said
from edgewise.server.openai.choices import finished, logprobs_of, usage_of
from edgewise.server.openai.writing import fingerprint
from edgewise.server.writing import new_id
from edgewise_runtime.calls import joined


def completion(
    model: str, facts: Facts, ended: Sequence[Ended], *, logprobs: bool
) -> dict[str, Any]:
    """The whole answer.

    Args:
        model: as it was asked for.
        ended: its choices.
    """
    return {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time()),
        "model": model,
        "system_fingerprint": fingerprint(facts),
        "choices": [
            {
                "index": one.index,
                "message": _message(one),
                "logprobs": logprobs_of(one.tokens) if logprobs else None,
                "finish_reason": finished(one),
            }
            for one in ended
        ],
        "usage": usage_of(ended),
    }


def _message(ended: Ended) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": (ended.text or None) if ended.calls else ended.text,
        "refusal": None,
    }
    if ended.reasoning:
        message["reasoning_content"] = ended.reasoning
    if ended.calls:
        message["tool_calls"] = [called(call) for call in ended.calls]
    return message


def called(call: Call) -> dict[str, Any]:
    """A call as messages have it."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


@dataclass
class Chunks:
    """Writes the events of one answer as chunks.

    A call is sent as it comes. What turns out to be none is said as text then, and its chunks stay
    sent: the API has no way to take them back.

    Attributes:
        model: as it was asked for.
        with_usage: a last chunk has what all of it took.
    """

    model: str
    facts: Facts
    logprobs: bool
    with_usage: bool
    id: str = field(default_factory=lambda: new_id("chatcmpl-"))
    created: int = field(default_factory=lambda: int(time()))
    _ended: list[Ended] = field(default_factory=list)
    _begun: set[int] = field(default_factory=set)

    def of(self, event: Event) -> Iterator[dict[str, Any]]:
        """The chunks of an event."""
        if event.index not in self._begun:
            self._begun.add(event.index)
            yield self._chunk(event.index, {"role": "assistant", "content": ""})
        if isinstance(event, Ended):
            self._ended.append(event)
            yield self._chunk(event.index, {}, finish_reason=finished(event))
            return
        likely = logprobs_of(event.tokens) if self.logprobs and event.tokens else None
        for delta in _deltas(event):
            yield self._chunk(event.index, delta, logprobs=likely)
            likely = None
        if likely is not None:
            yield self._chunk(event.index, {}, logprobs=likely)

    def last(self) -> Iterator[dict[str, Any]]:
        """What follows the last event."""
        if self.with_usage:
            yield {**self._head(), "choices": [], "usage": usage_of(self._ended)}

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        *,
        logprobs: dict[str, Any] | None = None,
        finish_reason: str | None = None,
    ) -> dict[str, Any]:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        usage = {"usage": None} if self.with_usage else {}
        return {**self._head(), "choices": [choice], **usage}

    def _head(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": fingerprint(self.facts),
        }


def _deltas(said: Said) -> Iterator[dict[str, Any]]:
    for delta in joined(said.deltas):
        if written := _delta(delta):
            yield written


def _delta(delta: Delta) -> dict[str, Any]:
    match delta:
        case Content(text) | NoCall(text=text):
            return {"content": text} if text else {}
        case Reasoning(text):
            return {"reasoning_content": text} if text else {}
        case CallBegins(index, id_, name):
            function = {"name": name, "arguments": ""}
            call = {"index": index, "id": id_, "type": "function", "function": function}
            return {"tool_calls": [call]}
        case Arguments(index, text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
        case CallEnds():
            return {}
