"""What an answer came to, in the words of `edgewise.Completion`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from edgewise_client.errors import InputError, shorten


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out; `cached_tokens` of the prompt did not have to be computed again."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds, and tokens per second; `ttft_s` runs from the request to its first token."""

    ttft_s: float
    prefill_s: float
    decode_s: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model has written to its end; `text` is its arguments' JSON."""

    id: str
    name: str
    text: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values, by name; nobody has looked whether the tool takes them."""
        return dict(json.loads(self.text))

    def result(self, value: Any) -> dict[str, Any]:
        """The message that tells the model what the call gave: text as it is, or JSON.

        Raises InputError ``input.tool_result`` for what JSON cannot hold.
        """
        if not isinstance(value, str):
            try:
                value = json.dumps(value, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                raise InputError(
                    f"The tool {self.name!r} gave {shorten(value)}, neither text nor JSON.",
                    remedy="Let it return text, or plain dicts, lists, numbers and texts.",
                    code="input.tool_result",
                ) from error
        return {"role": "tool", "tool_call_id": self.id, "name": self.name, "content": value}

    def to_json(self) -> dict[str, Any]:
        """The call as messages have it."""
        function = {"name": self.name, "arguments": self.text}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely a token was, by the model alone.

    Attributes:
        token_id: the token that was drawn.
        logprob: natural logarithm of its probability, at most 0.
        top: the likeliest tokens, best first, each as (id, logprob): as many as were asked for.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """The result of one generation.

    Attributes:
        text: what is said, without thoughts and calls.
        token_ids: every token generated, those it went on from (`begun`) first.
        finish_reason: ``stop``, ``length``, ``cancelled`` or ``tool_calls``.
        seed: what gives the same text again.
        reasoning: what was thought before.
        tool_calls: in their order.
        written: all of it as the model wrote it; of a host's model, `text`.
        parsed: the text as what was asked for with `response_format`; None where nothing was asked
            for, where it was cut off, and of a host's model.
        logprobs: of each token that was drawn, where they were asked for.
        context_full: it ended because the context did, before `max_tokens`.
        dropped_turns: oldest turns of the conversation that were left out.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    usage: Usage
    timings: Timings
    seed: int
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    written: str = ""
    parsed: Any = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    context_full: bool = False
    dropped_turns: int = 0

    def message(self) -> dict[str, Any]:
        """The answer as a message, to go on with the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["content"] = self.text or None
            message["tool_calls"] = [call.to_json() for call in self.tool_calls]
        return message


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What there is to know of a model wherever it runs; `context` is None where it is unknown."""

    name: str
    family: str
    quant: str
    context: int | None
    tokenizer: str


def info_of(told: Mapping[str, Any]) -> ModelInfo:
    """From the engine's `info`, as plain data; JSON has null for an endless context."""
    return ModelInfo(
        **{name: told[name] for name in ("name", "family", "quant", "context", "tokenizer")}
    )


def completion_of(told: Mapping[str, Any]) -> Completion:
    """From the engine's `Completion`, as plain data; its times are milliseconds."""
    usage, timings = told["usage"], told["timings"]
    return Completion(
        text=told["text"],
        token_ids=tuple(told["tokenIds"]),
        finish_reason=told["finishReason"],
        usage=Usage(usage["promptTokens"], usage["completionTokens"], usage["cachedTokens"]),
        timings=Timings(
            ttft_s=timings["ttftMs"] / 1000,
            prefill_s=timings["prefillMs"] / 1000,
            decode_s=timings["decodeMs"] / 1000,
            prefill_tokens_per_s=timings["prefillTokensPerSecond"],
            decode_tokens_per_s=timings["decodeTokensPerSecond"],
        ),
        seed=int(told["seed"]),
        reasoning=told["reasoning"],
        tool_calls=tuple(
            ToolCall(call["id"], call["name"], call["text"]) for call in told["toolCalls"]
        ),
        written=told["written"],
        parsed=told.get("parsed"),
        logprobs=tuple(map(_likely, told["logprobs"])) if "logprobs" in told else None,
        context_full=told["contextFull"],
        dropped_turns=told["droppedTurns"],
    )


def _likely(told: Mapping[str, Any]) -> TokenLogprob:
    top = tuple((one["tokenId"], _logarithm(one["logprob"])) for one in told["top"])
    return TokenLogprob(told["tokenId"], _logarithm(told["logprob"]), top)


def _logarithm(told: float | None) -> float:
    """JSON has null for minus infinity, which is that of a token that cannot be."""
    return -inf if told is None else told
