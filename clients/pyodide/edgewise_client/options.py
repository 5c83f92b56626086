"""Options by Python's names, as the engine in TypeScript takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise_client.errors import InputError, UnsupportedError, shorten

JS_NAMES = {
    "max_tokens": "maxTokens",
    "min_tokens": "minTokens",
    "temperature": "temperature",
    "top_k": "topK",
    "top_p": "topP",
    "min_p": "minP",
    "repetition_penalty": "repetitionPenalty",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "logit_bias": "logitBias",
    "seed": "seed",
    "stop": "stop",
    "stop_token_ids": "stopTokenIds",
    "ignore_eos": "ignoreEos",
    "logprobs": "logprobs",
    "top_logprobs": "topLogprobs",
    "priority": "priority",
    "response_format": "responseFormat",
    "tools": "tools",
    "tool_choice": "toolChoice",
    "tool_format": "toolFormat",
    "reasoning": "reasoning",
}
"""Of every request; the engine checks the values."""

CHAT_NAMES = {
    "context_policy": "contextPolicy",
    "begun": "begun",
    "special_tokens": "specialTokens",
    "variables": "variables",
}
"""Of conversations only."""

REFUSED = {
    "timeout_s": "Use asyncio.timeout: who is cancelled stops the request.",
    "cache_salt": "All requests of a tab share prefixes.",
    "n": "Call choices.",
    "sampling": "Give the options themselves.",
}
"""What `edgewise.AsyncEngine` takes besides, and what to do without it."""


def js_options(given: Mapping[str, Any], *, chat: bool) -> dict[str, Any]:
    """The same options by TypeScript's names; those that are None are left out.

    Raises:
        UnsupportedError: ``unsupported.tab`` for one that only `edgewise.AsyncEngine` has.
        InputError: ``input.option`` for one of conversations, ``input.sampling`` for one there is
            not.
    """
    names = JS_NAMES | CHAT_NAMES if chat else JS_NAMES
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name not in names:
            raise _refused(name, value)
        found[names[name]] = value
    return found


def _refused(name: str, value: object) -> Exception:
    if name in REFUSED:
        said = f"{name} is {shorten(value)}, which engines of tabs do not have."
        return UnsupportedError(said, remedy=REFUSED[name])
    if name in CHAT_NAMES:
        said = f"{name} is {shorten(value)}, which only conversations have."
        return InputError(said, remedy=f"Leave out {name}, or call chat.", code="input.option")
    known = ", ".join(JS_NAMES | CHAT_NAMES)
    return InputError(
        f"There is no option {shorten(name)}.", remedy=f"There are {known}.", code="input.sampling"
    )
