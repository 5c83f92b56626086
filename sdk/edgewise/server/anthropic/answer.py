"""Answers as Anthropic's API has them: a message, and the events that it comes in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from edgewise.hosting.base import Ended, Event
from edgewise.server.anthropic.blocks import Blocks, Told, broken_call
from edgewise.server.anthropic.request import MessagesRequest
from edgewise.server.writing import new_id
from edgewise_runtime.engine.completion import Usage

STOPPED = {
    "cancelled": "max_tokens",
    "length": "max_tokens",
    "timeout": "max_tokens",
    "tool_calls": "tool_use",
}
"""Why an answer ended, in the API's words: what was cut off for another reason is so, too."""
CUT_OFF = ("max_tokens", "model_context_window_exceeded")
"""Why an answer may end in the middle of a call."""
PING: Told = {"type": "ping"}
"""Says that the answer is still coming."""


@dataclass
class Answer:
    """The answer to a request, made of what the model says.

    Attributes:
        prompt_tokens: what its prompt was counted as before it was asked.
        streams: it is told in events.
    """

    asked: MessagesRequest
    prompt_tokens: int = 0
    streams: bool = False
    id: str = field(default_factory=lambda: new_id("msg_"))
    blocks: Blocks = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = Blocks(self.asked.one_call, self.asked.shows_thoughts, self.streams)

    def begin(self) -> Iterator[Told]:
        """The first events. What the cache gave is known in the end only."""
        yield {"type": "message_start", "message": self._message(Usage(self.prompt_tokens, 0))}
        yield PING

    def of(self, event: Event) -> Iterator[Told]:
        """The events of what the model said; a ping where nothing can be told of it yet."""
        if isinstance(event, Ended):
            yield from self._end(event)
        else:
            yield from list(self.blocks.of(event.deltas)) or [PING]

    def broken(self) -> Iterator[Told]:
        """The events that go before an error: no block is left open."""
        yield from self.blocks.end()

    def _end(self, ended: Ended) -> Iterator[Told]:
        yield from self.blocks.end()
        usage, stopped = usage_of(ended.usage), self._stopped(ended)
        if self.blocks.cut is not None and stopped["stop_reason"] not in CUT_OFF:
            # Nothing else would tell that what was told as a call is none.
            raise broken_call(self.blocks.cut, "not whole")
        yield {"type": "message_delta", "delta": stopped, "usage": usage}
        yield {"type": "message_stop"}

    def whole(self, ended: Ended) -> dict[str, Any]:
        """The message, once all events are read."""
        return {**self._message(ended.usage), **self._stopped(ended)}

    def _message(self, usage: Usage) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.asked.model,
            "content": list(self.blocks.content),
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_of(usage),
        }

    def _stopped(self, ended: Ended) -> dict[str, Any]:
        reason, stop = STOPPED.get(ended.finish_reason, "end_turn"), None
        left = self.asked.max_tokens - ended.usage.completion_tokens
        if ended.finish_reason == "length" and left > 0:
            reason = "model_context_window_exceeded"
        if reason == "end_turn" and ended.stop in (self.asked.stop_sequences or ()):
            reason, stop = "stop_sequence", ended.stop
        return {"stop_reason": reason, "stop_sequence": stop}


def usage_of(usage: Usage) -> dict[str, int]:
    """Tokens as the API counts them: those of the cache are no input."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
