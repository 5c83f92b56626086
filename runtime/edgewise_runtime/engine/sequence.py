"""One prompt and what has become of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

from edgewise_runtime.engine.completion import Completion, FinishReason, Timings, Usage
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.stops import StopStrings
from edgewise_runtime.text import Tokenizer


@dataclass(frozen=True)
class Request:
    """A prompt as token ids and how to go on from it."""

    prompt: tuple[int, ...]
    params: SamplingParams


class Sequence:
    """The state of one request. Times are seconds of `perf_counter`.

    Attributes:
        max_tokens: tokens to generate at most, the context taken into account.
        slot: row of per-sequence state on the device while running.
        pages: KV pages held while running, enough for the prompt and `max_tokens`.
        tokens: ids generated so far.
        finish_reason: None while unfinished.
        bursts: decode bursts so far.
    """

    def __init__(
        self, request: Request, tokenizer: Tokenizer, end_tokens: Iterable[int], context: int
    ) -> None:
        params = request.params
        self.prompt = request.prompt
        self.params = params
        self.max_tokens = min(params.max_tokens, context - len(request.prompt))
        self.seed = secrets.randbits(64) if params.seed is None else params.seed
        self.slot = -1
        self.pages: list[int] = []
        self.tokens: list[int] = []
        self._pieces: list[str] = []
        self.finish_reason: FinishReason | None = None
        self.bursts = 0
        self.prefill_s = 0.0
        self.decode_s = 0.0
        self._ttft_s = 0.0
        self._created = perf_counter()
        self._ends = frozenset(params.stop_token_ids)
        if not params.ignore_eos:
            self._ends |= frozenset(end_tokens)
        self._detokenizer = tokenizer.stream()
        self._stops = StopStrings(params.stop)

    @property
    def kv_len(self) -> int:
        """Tokens in KV once the prompt is: all but the last one generated."""
        return len(self.prompt) + max(len(self.tokens) - 1, 0)

    @property
    def kv_limit(self) -> int:
        """The `kv_len` at which the last token allowed has been generated."""
        return len(self.prompt) + self.max_tokens - 1

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return self.max_tokens - len(self.tokens)

    @property
    def stopped_by_host(self) -> bool:
        """Whether something ends it that the device does not look for."""
        return bool(self.params.stop or self.params.stop_token_ids)

    def accept(self, tokens: Iterable[int]) -> str:
        """Take the tokens of a step or burst; return the text they make certain.

        Sets `finish_reason` where one of them ends the sequence; tokens after that one are
        dropped.
        """
        if not self.tokens:
            self._ttft_s = perf_counter() - self._created
        text = ""
        for token in tokens:
            self.tokens.append(token)
            if token in self._ends:
                self.finish_reason = "stop"
                break
            text += self._stops.push(self._detokenizer.push([token]))
            if self._stops.found is not None:
                self.finish_reason = "stop"
                break
            if not self.remaining:
                self.finish_reason = "length"
                break
        if self.finish_reason is not None:
            text += self._stops.push(self._detokenizer.finish()) + self._stops.finish()
            if self._stops.found is not None:  # perhaps in characters that were held back
                self.finish_reason = "stop"
        self._pieces.append(text)
        return text

    def cancel(self) -> None:
        """End an unfinished sequence where it is."""
        self.finish_reason = self.finish_reason or "cancelled"

    def completion(self) -> Completion:
        """Return what has been generated; the sequence must be finished."""
        timings = Timings(
            ttft_s=self._ttft_s,
            prefill_s=self.prefill_s,
            decode_s=self.decode_s,
            prompt_tokens=len(self.prompt) if self.prefill_s else 0,
            decode_tokens=max(len(self.tokens) - 1, 0),
        )
        return Completion(
            text="".join(self._pieces),
            token_ids=tuple(self.tokens),
            finish_reason=self.finish_reason or "cancelled",
            usage=Usage(len(self.prompt), len(self.tokens)),
            timings=timings,
            seed=self.seed,
        )
