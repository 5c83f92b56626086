"""How tokens are chosen, as OpenAI's API says it, and as other servers of its kind do beside it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from edgewise.server.openai.refusing import Asking
from edgewise.server.wire_types import Count, Name, Number, Seed, Stops, Strict, Text, TokenIds
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

OPTIONS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "stop_token_ids",
    "min_tokens",
    "ignore_eos",
    "n",
    "cache_salt",
)
"""Parameters that are options of the engine, which knows their ranges."""


class StreamOptions(Strict):
    """What a stream tells besides."""

    include_usage: bool | None = None


class Sampling(Asking):
    """The parameters that chat completions and completions share."""

    model: Name
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Count | None = None
    stop: Text | Stops | None = None
    seed: Seed | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    logit_bias: Annotated[dict[str, Number], Field(max_length=4096)] | None = None
    max_tokens: Count | None = None
    top_k: Annotated[int, Field(ge=-1, lt=1 << 31)] | None = None
    min_p: Number | None = None
    repetition_penalty: Number | None = None
    min_tokens: Count | None = None
    stop_token_ids: TokenIds | None = None
    ignore_eos: bool | None = None
    cache_salt: Text | None = None

    @property
    def with_usage(self) -> bool:
        """Whether the end of a stream tells what was used."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def options(self) -> dict[str, Any]:
        """Options of the engine. Raises InputError ``input.body`` where a bias has no token."""
        given = {name: getattr(self, name) for name in OPTIONS}
        return {**given, "logit_bias": _biases(self.logit_bias)}


def _biases(biases: dict[str, float] | None) -> dict[int, float] | None:
    if biases is None:
        return None
    for token in biases:
        if not (token.isascii() and token.isdecimal() and len(token) < 10):
            raise InputError(
                f"logit_bias has a key {shorten(token)}, which is no token.",
                remedy='Keys are ids of tokens, such as {"42": -100}.',
                code="input.body",
            )
    return {int(token): bias for token, bias in biases.items()}
