"""What one generation gave: text, why it ended, and what it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from edgewise_runtime.engine.logprobs import TokenLogprob
from edgewise_runtime.engine.records import RequestMetrics

FinishReason = Literal["stop", "length", "cancelled", "timeout", "error"]
ReadReason = Literal["tool_calls"]
"""Said in place of ``stop`` by who reads calls of tools in the text."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out; an end token counts as one that came out.

    `cached_tokens` are those of the prompt that did not have to be computed again.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. `ttft_s` runs from the request to its first token, waiting included; `prefill_s`
    and `decode_s` are what the steps took, without the time a reader of the stream spent."""

    ttft_s: float
    prefill_s: float
    decode_s: float
    prompt_tokens: int
    decode_tokens: int
    cached_tokens: int = 0

    @property
    def prefill_tokens_per_s(self) -> float:
        """Of the tokens that had to be computed."""
        computed = max(self.prompt_tokens - self.cached_tokens, 0)
        return computed / self.prefill_s if self.prefill_s else 0.0

    @property
    def decode_tokens_per_s(self) -> float:
        """Of the tokens after the first, which belongs to the prefill; 0 where there is none."""
        return self.decode_tokens / self.decode_s if self.decode_s else 0.0

    def to_json(self) -> dict[str, float]:
        return {
            "ttft_s": self.ttft_s,
            "prefill_s": self.prefill_s,
            "decode_s": self.decode_s,
            "prefill_tokens_per_s": self.prefill_tokens_per_s,
            "decode_tokens_per_s": self.decode_tokens_per_s,
        }


@dataclass(frozen=True, slots=True)
class Completion:
    """The result of one generation.

    Attributes:
        text: what was generated, without special tokens and before any stop string.
        token_ids: every token generated, the one that ended it included. Of an answer that went on
            from tokens of an earlier one (`begun`), those and their text come first.
        finish_reason: ``stop`` (an end token, stop token or stop string), ``length`` (max_tokens
            or the context), ``cancelled``, ``timeout``, or ``tool_calls`` for ``stop`` after calls.
        seed: what gives the same text again; where none was asked for, the one that was drawn.
        index: which choice of its request it is, from 0.
        logprobs: of each token that came now, the last of `token_ids`, where they were asked for.
        context_full: it ended because the context did, before `max_tokens`.
        dropped_turns: oldest turns of the conversation left out to stay within the context.
        metrics: waits and latencies, None before the engine has noted its end.
        stop: the stop string that ended it, None where none did.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | ReadReason
    usage: Usage
    timings: Timings
    seed: int
    index: int = 0
    logprobs: tuple[TokenLogprob, ...] | None = None
    context_full: bool = False
    dropped_turns: int = 0
    metrics: RequestMetrics | None = None
    stop: str | None = None

    def to_json(self) -> dict[str, Any]:
        usage = self.usage
        return {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "finish_reason": self.finish_reason,
            "usage": {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.total_tokens,
                "cached_tokens": usage.cached_tokens,
            },
            "timings": self.timings.to_json(),
            "seed": self.seed,
            "index": self.index,
            "context_full": self.context_full,
            "dropped_turns": self.dropped_turns,
            **({} if self.logprobs is None else {"logprobs": [_shown(t) for t in self.logprobs]}),
        }


def _shown(token: TokenLogprob) -> dict[str, Any]:
    top = [{"token_id": token_id, "logprob": value} for token_id, value in token.top]
    return {"token_id": token.token_id, "logprob": token.logprob, "top": top}
