"""The keyword arguments that `generate`, `chat` and `submit` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from edgewise_runtime.engine.sequence import ContextPolicy
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

POLICIES = ("stop", "error", "drop")
MAX_TIMEOUT_S = 7 * 24 * 3600.0
MAX_PRIORITY = 1 << 31


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
    logprobs: bool | None
    top_logprobs: int | None


class RequestOptions(SamplingOptions, total=False):
    """How a request is treated beside others, and how its tokens are chosen.

    ``priority``: who waits goes in this order, the smallest first; 0 where nothing is said.
    ``timeout_s``: seconds after which it ends with what there is, ``finish_reason="timeout"``.
    ``context_policy``: where the context is full, ``"stop"`` ends the text there, ``"error"``
    raises EngineError ``engine.context``, and ``"drop"`` (of `chat`) forgets the oldest turns after
    the system prompt. The completion says so: ``context_full``, ``dropped_turns``.
    ``cache_salt``: requests share prefixes in KV memory only with others of the same salt.
    """

    priority: int | None
    timeout_s: float | None
    context_policy: ContextPolicy | None
    cache_salt: str | None


class SubmitOptions(RequestOptions, total=False):
    """Of `submit` and `submit_chat`. ``n``: so many choices, 1 to 64, for the same prompt."""

    n: int | None


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the request, checked and named as `Request` does, and the others.

    Raises InputError ``input.option``, and ``input.sampling`` for one there is not.
    """
    unknown = sorted(options.keys() - SubmitOptions.__annotations__.keys())
    if unknown:
        raise InputError(
            f"There is no option {unknown[0]!r}.",
            remedy=f"There are {', '.join(sorted(SubmitOptions.__annotations__))}.",
            code="input.sampling",
        )
    rest = dict(options)
    priority = rest.pop("priority", None)
    timeout_s = rest.pop("timeout_s", None)
    policy = rest.pop("context_policy", None)
    salt = rest.pop("cache_salt", None)
    if priority is not None and (type(priority) is not int or abs(priority) > MAX_PRIORITY):
        raise _refused("priority", priority, "a whole number, the smallest first")
    number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if timeout_s is not None and not (number and 0 < timeout_s <= MAX_TIMEOUT_S):
        raise _refused("timeout_s", timeout_s, f"above 0 and at most {MAX_TIMEOUT_S:.0f} seconds")
    if policy is not None and policy not in POLICIES:
        raise _refused("context_policy", policy, f"one of {', '.join(POLICIES)}")
    if salt is not None and not (isinstance(salt, str) and 0 < len(salt) <= 256):
        raise _refused("cache_salt", salt, "text of 1 to 256 characters")
    request = {
        "priority": priority or 0,
        "timeout_s": timeout_s,
        "context_policy": policy or "stop",
        "extras": () if salt is None else (salt,),
    }
    return request, rest


def _refused(name: str, value: object, wanted: str) -> InputError:
    return InputError(f"{name} is {shorten(value)}; it must be {wanted}.", code="input.option")
