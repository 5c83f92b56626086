"""What a caller may ask of one generation, every value checked where it enters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.abi import MAX_BIASES, TOP_LOGPROBS
from edgewise_runtime.format.reading import shorten

MAX_STOPS = 64
MAX_STOP_CHARACTERS = 1000
MAX_CHOICES = 64
GREEDY_BELOW = 1e-4
"""Temperatures below this choose the likeliest token: dividing by them would overflow."""

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 100.0),
    "presence_penalty": (-100.0, 100.0),
    "frequency_penalty": (-100.0, 100.0),
}
_WHOLE: dict[str, tuple[int, int]] = {
    "max_tokens": (0, (1 << 31) - 1),
    "min_tokens": (0, (1 << 31) - 1),
    "top_k": (-1, (1 << 31) - 1),
    "seed": (-1, (1 << 64) - 1),
    "top_logprobs": (0, TOP_LOGPROBS),
    "n": (1, MAX_CHOICES),
}
MAX_BIAS = 1e4
_NOT_GIVEN: dict[str, int | None] = {"top_k": 0, "seed": None}
"""What -1 means, which others say for what is off or left to chance."""


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen and when to end.

    Applied in this order: penalties, logit bias, temperature, top-k, top-p, min-p, draw.

    Attributes:
        max_tokens: tokens to generate at most; fewer where the context ends first. 0 only computes
            the prompt.
        min_tokens: end tokens do not come before the answer has so many.
        temperature: 0 chooses the likeliest token (and makes the filters below moot).
        top_k: keep the k likeliest tokens; 0 keeps all, and so does -1, which becomes 0.
        top_p: keep the likeliest tokens that together reach this probability; 1 keeps all, 0 only
            the likeliest one.
        min_p: keep tokens with at least this fraction of the likeliest one's probability.
        repetition_penalty: divide the positive and multiply the negative logits of tokens seen.
        presence_penalty: subtract from the logits of tokens of the answer so far.
        frequency_penalty: subtract, times how often the answer has the token.
        logit_bias: token id to what is added to its logit.
        seed: of the random numbers; the same seed and request give the same text. None: any, and
            so is -1, which becomes None.
        stop: end before the first of these strings, which is not part of the text.
        stop_token_ids: end at the first of these ids, besides the model's own end tokens.
        ignore_eos: go on past the model's end tokens.
        logprobs: also report the log-probability of every token, which is the model's own: before
            penalties, biases and temperature.
        top_logprobs: with `logprobs`, also report so many of the likeliest tokens, 0 to 20.
        n: choices to generate for the same prompt, 1 to 64, each with random numbers of its own.
    """

    max_tokens: int = 256
    min_tokens: int = 0
    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 0.95
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: bool = False
    top_logprobs: int = 0
    n: int = 1

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            _check_number(name, getattr(self, name), low, high)
        for name, bounds in _WHOLE.items():
            if name != "seed" or self.seed is not None:
                _check_whole(name, getattr(self, name), *bounds)
        for name, meant in _NOT_GIVEN.items():
            if getattr(self, name) == -1:
                object.__setattr__(self, name, meant)
        for name in ("ignore_eos", "logprobs"):
            if not isinstance(getattr(self, name), bool):
                raise _error(name, getattr(self, name), "True or False")
        if self.top_logprobs and not self.logprobs:
            raise _error("top_logprobs", self.top_logprobs, "0 unless logprobs is True")
        self._check_biases()
        self._check_stops()

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always chosen."""
        return self.temperature < GREEDY_BELOW or self.top_p == 0

    @property
    def penalized(self) -> bool:
        """Whether tokens seen before count."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
        )

    def _check_biases(self) -> None:
        if not isinstance(self.logit_bias, Mapping):
            raise _error("logit_bias", self.logit_bias, "a dict from token id to number")
        if len(self.logit_bias) > MAX_BIASES:
            raise _error("len(logit_bias)", len(self.logit_bias), f"at most {MAX_BIASES}")
        for token, bias in self.logit_bias.items():
            _check_whole("logit_bias's token id", token, 0, (1 << 31) - 1)
            _check_number(f"logit_bias[{token}]", bias, -MAX_BIAS, MAX_BIAS)

    def _check_stops(self) -> None:
        if len(self.stop) > MAX_STOPS:
            raise _error("len(stop)", len(self.stop), f"at most {MAX_STOPS}")
        for stop in self.stop:
            if not isinstance(stop, str) or not 0 < len(stop) <= MAX_STOP_CHARACTERS:
                raise _error("stop", stop, f"text of 1 to {MAX_STOP_CHARACTERS} characters")
        if len(self.stop_token_ids) > MAX_STOPS:
            raise _error("len(stop_token_ids)", len(self.stop_token_ids), f"at most {MAX_STOPS}")
        for token in self.stop_token_ids:
            _check_whole("stop_token_ids", token, 0, (1 << 31) - 1)


def _check_number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _error(name, value, f"a number from {low:g} to {high:g}")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _error(name, value, f"a whole number from {low} to {high}")


def _error(name: str, value: object, wanted: str) -> InputError:
    return InputError(f"{name} is {shorten(value)}; it must be {wanted}.", code="input.sampling")
