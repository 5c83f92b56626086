"""The messages of ``edgewise.v1`` between a tab that lends its GPU and the server it lends it to.

See docs/protocol.md. A tab's are read, and nothing of them is believed; ours are written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from edgewise.deltas import (
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    NoCall,
    Reasoning,
)
from edgewise.hosting.base import Ask, Call, Ended
from edgewise.hosting.tab import Lent
from edgewise.hosting.tabs import MAX_SLOTS, MAX_TEXT
from edgewise_runtime.engine.completion import Usage
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError
from edgewise_runtime.format.reading import HEX_SHA256, Fields, shorten

RUN = re.compile(r"r[0-9]{1,18}")
CODE = re.compile(r"[a-z_]{1,40}(\.[a-z_]{1,40}){0,2}")
SEED = re.compile(r"[0-9]{1,20}")
REASONS = ("stop", "length", "tool_calls", "cancelled")
MAX_NAME = 256
MAX_SAID = 4096
"""Characters of what an error says."""
MAX_DELTAS = 1024
MAX_CALLS = 1024
MAX_CONTEXT = 1 << 24
MAX_BEAT = 1 << 31
MAX_NUMBER = 1 << 53


@dataclass(frozen=True)
class Lend:
    """Of a tab: its GPU may be used for requests to a model."""

    lent: Lent


@dataclass(frozen=True)
class TabSaid:
    """Of a tab: more of an answer."""

    run: str
    deltas: tuple[Delta, ...]


@dataclass(frozen=True)
class TabEnded:
    """Of a tab: an answer is whole."""

    run: str
    ended: Ended


@dataclass(frozen=True)
class TabFailed:
    """Of a tab: an answer has ended with an error."""

    run: str
    error: EdgewiseError


@dataclass(frozen=True)
class Alive:
    """Of a tab: the answer to `Beat`."""

    beat: int


@dataclass(frozen=True)
class Unlend:
    """Of a tab: it takes no more, and finishes what it has."""


TabMessage: TypeAlias = Lend | TabSaid | TabEnded | TabFailed | Alive | Unlend


@dataclass(frozen=True)
class Welcome:
    """To a tab: it is one of those that are asked.

    Attributes:
        beat_s: seconds between beats.
    """

    tab: str
    beat_s: float

    def to_json(self) -> dict[str, Any]:
        return {"type": "lent", "tab": self.tab, "beat_s": self.beat_s}


@dataclass(frozen=True)
class Begin:
    """To a tab: an answer is asked for."""

    run: str
    ask: Ask

    def to_json(self) -> dict[str, Any]:
        ask = self.ask
        given = {
            "messages": ask.messages,
            "prompt": ask.prompt,
            "tools": ask.tools,
            "variables": ask.variables,
        }
        present = {name: value for name, value in given.items() if value is not None}
        options = dict(ask.options)
        if "seed" in options:
            options["seed"] = str(options["seed"])  # of 64 bits, which no number of theirs holds
        return {"type": "run", "run": self.run, **present, "options": options}


@dataclass(frozen=True)
class Halt:
    """To a tab: no more of an answer is wanted."""

    run: str

    def to_json(self) -> dict[str, Any]:
        return {"type": "halt", "run": self.run}


@dataclass(frozen=True)
class Beat:
    """To a tab: is it there?"""

    beat: int

    def to_json(self) -> dict[str, Any]:
        return {"type": "beat", "beat": self.beat}


ToTab: TypeAlias = Welcome | Begin | Halt | Beat


def _lend(fields: Fields) -> Lend:
    return Lend(
        Lent(
            model=fields.text("model", most=MAX_NAME),
            bundle=fields.text("bundle", HEX_SHA256),
            tokenizer=fields.text("tokenizer", HEX_SHA256),
            program=fields.text("program", most=MAX_NAME),
            device=fields.text("device", most=MAX_NAME),
            context=fields.integer("context", 2, MAX_CONTEXT),
            slots=fields.integer("slots", 1, MAX_SLOTS),
        )
    )


def _said(fields: Fields) -> TabSaid:
    deltas = fields.items("deltas", most=MAX_DELTAS)
    return TabSaid(fields.text("run", RUN), tuple(map(_delta, deltas)))


def _ended(fields: Fields) -> TabEnded:
    return TabEnded(fields.text("run", RUN), _choice(fields.get("choice")))


def _failed(fields: Fields) -> TabFailed:
    code = fields.text("code", CODE)
    message = fields.text("message", most=MAX_SAID)
    remedy = fields.text("remedy", most=MAX_SAID)
    # What a tab calls wrong with a request is the request's, as at any engine.
    kind = InputError if code.startswith("input.") else EngineError
    return TabFailed(fields.text("run", RUN), kind(message, remedy=remedy, code=code))


def _alive(fields: Fields) -> Alive:
    return Alive(fields.integer("beat", 1, MAX_BEAT))


def _unlend(_: Fields) -> Unlend:
    return Unlend()


TAB_READERS: Mapping[str, Callable[[Fields], TabMessage]] = {
    "lend": _lend,
    "said": _said,
    "ended": _ended,
    "failed": _failed,
    "alive": _alive,
    "unlend": _unlend,
}


def _delta(value: Any) -> Delta:
    fields = Fields(value, "A delta", InputError)
    kind = fields.get("type")
    reader = _DELTAS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise fields.fail("delta", f"'type' is {shorten(kind)} and none of {', '.join(_DELTAS)}")
    delta = reader(fields)
    fields.done()
    return delta


def _index(fields: Fields) -> int:
    return fields.integer("index", 0, MAX_CALLS)


def _text(fields: Fields, key: str = "text") -> str:
    return fields.text(key, most=MAX_TEXT)


_DELTAS: Mapping[str, Callable[[Fields], Delta]] = {
    "content": lambda fields: Content(_text(fields)),
    "reasoning": lambda fields: Reasoning(_text(fields)),
    "call_begins": lambda fields: CallBegins(
        _index(fields), fields.text("id", most=MAX_NAME), fields.text("name", most=MAX_SAID)
    ),
    "arguments": lambda fields: Arguments(_index(fields), _text(fields)),
    "call_ends": lambda fields: CallEnds(_index(fields)),
    "no_call": lambda fields: NoCall(
        fields.nullable("index", lambda: _index(fields)),
        _text(fields),
        fields.text("why", most=MAX_NAME),
    ),
}


def _choice(value: Any) -> Ended:
    fields = Fields(value, "The choice", InputError)
    ended = Ended(
        index=0,
        text=_text(fields),
        reasoning=_text(fields, "reasoning"),
        calls=tuple(map(_call, fields.items("calls", most=MAX_CALLS))),
        token_ids=fields.integers("token_ids", 0, (1 << 31) - 1, most=MAX_CONTEXT),
        finish_reason=fields.choice("reason", REASONS),
        usage=_usage(fields.get("usage")),
        timings=_timings(fields.get("timings")),
        seed=int(fields.text("seed", SEED)),
        stop=fields.nullable("stop", lambda: _text(fields, "stop")),
        context_full=fields.flag("context_full"),
        dropped_turns=fields.integer("dropped_turns", 0, MAX_CONTEXT),
    )
    fields.done()
    return ended


def _call(value: Any) -> Call:
    fields = Fields(value, "A call", InputError)
    call = Call(
        fields.text("id", most=MAX_NAME),
        fields.text("name", most=MAX_SAID),
        _text(fields, "arguments"),
    )
    fields.done()
    return call


def _usage(value: Any) -> Usage:
    fields = Fields(value, "The usage", InputError)
    prompt, completion, cached = (
        fields.integer(name, 0, MAX_CONTEXT)
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens")
    )
    fields.done()
    return Usage(prompt, completion, cached)


def _timings(value: Any) -> dict[str, float]:
    fields = Fields(value, "The timings", InputError)
    found = {name: _number(fields, name) for name in TIMINGS}
    fields.done()
    return found


TIMINGS = ("ttft_s", "prefill_s", "decode_s", "prefill_tokens_per_s", "decode_tokens_per_s")


def _number(fields: Fields, key: str) -> float:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise fields.fail("type", f"{key!r} must be a number, found {shorten(value)}")
    if not (math.isfinite(value) and 0 <= value <= MAX_NUMBER):
        raise fields.fail("range", f"{key!r} must be in 0..{MAX_NUMBER}, found {shorten(value)}")
    return float(value)
