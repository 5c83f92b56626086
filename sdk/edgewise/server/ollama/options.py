"""Ollama's `options`, `format` and `think` as options of the engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.hosting.base import Facts
from edgewise.server.ollama.requests import Answered
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten

EFFORTS = ("low", "medium", "high")
THINKING = "thinking"
"""The capability of a model that thinks before it answers."""
_SHOWN = re.compile(r"[A-Za-z0-9_]{1,40}")
_MOST_SHOWN = 16


@dataclass(frozen=True)
class Kind:
    """What an option's value is: `name` for people."""

    name: str
    takes: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    texts = value if isinstance(value, list) else [value]
    return all(isinstance(text, str) for text in texts)


WHOLE = Kind("a whole number", _is_whole)
NUMBER = Kind("a number", _is_number)
TEXTS = Kind("a text or a list of texts", _is_texts)

SAME: dict[str, tuple[str, Kind]] = {
    "temperature": ("temperature", NUMBER),
    "top_k": ("top_k", WHOLE),
    "top_p": ("top_p", NUMBER),
    "min_p": ("min_p", NUMBER),
    "repeat_penalty": ("repetition_penalty", NUMBER),
    "presence_penalty": ("presence_penalty", NUMBER),
    "frequency_penalty": ("frequency_penalty", NUMBER),
    "seed": ("seed", WHOLE),
    "stop": ("stop", TEXTS),
}
"""Options that the engine has too, with its names for them."""

OWN: dict[str, Kind] = {"num_predict": WHOLE, "num_ctx": WHOLE, "repeat_last_n": WHOLE}
"""Those that mean something here, each in its own way."""


@dataclass(frozen=True)
class Options:
    """What a request asks of the engine.

    Attributes:
        given: options by the engine's names.
        ignored: names of those that are not followed, as they may stand in a header.
    """

    given: Mapping[str, Any]
    ignored: tuple[str, ...] = ()


def options_of(request: Answered, facts: Facts) -> Options:
    """Read what is asked of an answer beside its prompt.

    As at Ollama there is no limit to an answer but the context where none is given.

    Raises:
        InputError: ``input.option`` for a value of another kind, ``input.think``,
            ``input.response_format``.
        UnsupportedError: ``unsupported.think`` for a model that does not think.
    """
    sampled, ignored = sampling_of(request.options or {}, facts.context)
    asked = {
        "response_format": format_of(request.format),
        "reasoning": reasoning_of(request.think, facts),
        "logprobs": request.logprobs,
        "top_logprobs": request.top_logprobs if request.logprobs else None,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    return Options({**sampled, **given}, ignored)


def sampling_of(options: Mapping[str, Any], context: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The engine's options, and the names of those that it does not follow.

    Args:
        context: of the model, in tokens.

    Raises:
        InputError: ``input.option`` for a value of another kind.
    """
    found: dict[str, Any] = {"max_tokens": context}
    ignored = []
    for name, value in options.items():
        kind = OWN.get(name) or SAME.get(name, (name, None))[1]
        if value is None:
            continue
        if kind is None:
            ignored.append(name)
        elif not kind.takes(value):
            raise InputError(
                f"The option {name} is {shorten(value)}; it must be {kind.name}.",
                code="input.option",
            )
        elif name in SAME:
            found[SAME[name][0]] = value
    if (most := options.get("num_predict")) is not None and most >= 0:
        found["max_tokens"] = min(most, context)
    if (options.get("num_ctx") or 0) > context:
        ignored.append("num_ctx")  # the model has less, which it is loaded with
    # The penalty is for all tokens there are, or for none: no other window is known.
    window = options.get("repeat_last_n")
    if window == 0:
        found.pop("repetition_penalty", None)
    elif window is not None and 0 <= window < context:
        ignored.append("repeat_last_n")
    return found, tuple(ignored)


def format_of(given: Mapping[str, Any] | str | None) -> dict[str, Any] | None:
    """The engine's response_format; None for any text.

    Raises InputError ``input.response_format``.
    """
    if given is None or given == "":
        return None
    if given == "json":
        return {"type": "json_object"}
    if isinstance(given, str):
        raise InputError(
            f"format is {shorten(given)}.",
            remedy='It is "json" or a JSON schema.',
            code="input.response_format",
        )
    return {"type": "json_schema", "json_schema": {"schema": dict(given)}}


def reasoning_of(think: bool | str | None, facts: Facts) -> bool | str | None:
    """What is asked of the model's thoughts; None leaves it to the model.

    Raises:
        InputError: ``input.think`` for another word than `EFFORTS`.
        UnsupportedError: ``unsupported.think`` where it does not think and should.
    """
    if isinstance(think, str) and think not in EFFORTS:
        raise InputError(
            f"think is {shorten(think)}.",
            remedy=f"It is true, false or one of {', '.join(EFFORTS)}.",
            code="input.think",
        )
    if THINKING in facts.capabilities:
        return think
    if think:
        raise UnsupportedError(
            f"{shorten(facts.name)} does not support thinking.",
            remedy="Leave think out, or use another model.",
            code="unsupported.think",
        )
    return None


def warning_of(ignored: tuple[str, ...]) -> dict[str, str]:
    """The header that names what is not followed; none where all is."""
    if not ignored:
        return {}
    # Others than a client's own words for options have no place in a header.
    shown = [name for name in ignored if _SHOWN.fullmatch(name)][:_MOST_SHOWN]
    more = len(ignored) - len(shown)
    listed = ", ".join([*shown, *([f"{more} more"] if more else [])])
    return {"Warning": f'199 - "Ignored: {listed}"'}
