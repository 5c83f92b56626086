"""The keyword arguments that `generate` and `chat` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class SamplingOptions(TypedDict, total=False):
    """See `edgewise_runtime.engine.sampling.SamplingParams` for what each one does.

    What is not given, or None, comes from the model's generation_config.json, and else is
    ``max_tokens=256, temperature=0.7, top_p=0.95`` and everything else off.
    """

    max_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    seed: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
