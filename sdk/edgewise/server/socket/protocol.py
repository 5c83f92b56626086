"""The messages of ``edgewise.v1``, see docs/protocol.md: a client's are read, ours written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from edgewise.deltas import (
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    NoCall,
    Reasoning,
)
from edgewise.hosting.base import Ask, Ended, Said, TokenSaid
from edgewise.server.socket.lending import TAB_READERS, TabMessage
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.reading import Fields, parse_json, shorten

SUBPROTOCOL = "edgewise.v1"

MAX_MESSAGE = 2 << 20
"""Bytes of one message of a client."""
MAX_VALUES = 1 << 18
"""Lists, objects and commas of one."""
MAX_MESSAGES, MAX_TOOLS, MAX_VARIABLES = 4096, 512, 64
MAX_NAME = 256
MAX_ECHO = 64
MAX_TOKEN = (1 << 31) - 1
MAX_NUMBER = 1 << 31

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
SECRET = re.compile(r"[A-Za-z0-9_-]{43}")

OPTIONS = frozenset(
    "begun cache_salt context_policy frequency_penalty ignore_eos logit_bias logprobs max_tokens \
min_p min_tokens n presence_penalty priority reasoning repetition_penalty response_format seed \
special_tokens stop stop_token_ids temperature timeout_s tool_choice top_k top_logprobs \
top_p".split()
)
"""Those of `edgewise.options.SubmitOptions` that are JSON. The engine checks what they are."""

LEAST_LOGPROB = -9999.0
"""In place of what JSON has no number for."""

_MESSAGE = "The message"
_REMEDY = "docs/protocol.md has every message with an example."
# Only an escape can write half of a character: UTF-8 has none.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class MessageError(InputError):
    """A message that is none.

    Attributes:
        id: that it gave itself; None where it gave none that could be one.
    """

    def __init__(self, error: EdgewiseError, named: str | None) -> None:
        super().__init__(error.message, remedy=error.remedy or _REMEDY, code=error.code)
        self.id = named


@dataclass(frozen=True)
class Start:
    """Of a client: ``generate`` or ``chat``."""

    id: str
    model: str
    ask: Ask


@dataclass(frozen=True)
class Cancel:
    """Of a client: no more of a generation is wanted."""

    id: str


@dataclass(frozen=True)
class Resume:
    """Of a client: what has come of a generation since another socket broke.

    Attributes:
        secret: that ``accepted`` gave.
        after: number of the last message of it that came; -1 for none.
    """

    id: str
    secret: str
    after: int


@dataclass(frozen=True)
class Ping:
    """Of a client: is anybody there?"""

    echo: str = ""


ClientMessage: TypeAlias = Start | Cancel | Resume | Ping | TabMessage


@dataclass(frozen=True)
class Accepted:
    """A generation has begun, or is resumed.

    Attributes:
        n: number of the next message of it.
    """

    id: str
    secret: str
    n: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"type": "accepted", "id": self.id, "secret": self.secret, "n": self.n}


@dataclass(frozen=True)
class Piece:
    """What a step added to a choice of a generation."""

    id: str
    n: int
    said: Said

    def to_json(self) -> dict[str, Any]:
        said = self.said
        tokens = {"tokens": [_token(one) for one in said.tokens]} if said.tokens else {}
        return {
            "type": "piece",
            "id": self.id,
            "n": self.n,
            "index": said.index,
            "deltas": [_delta(one) for one in said.deltas],
            "token_ids": list(said.token_ids),
            **tokens,
        }


@dataclass(frozen=True)
class Done:
    """A generation is over.

    Attributes:
        choices: that are whole; of a cancelled one perhaps none.
    """

    id: str
    n: int
    choices: tuple[Ended, ...]
    cancelled: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "done",
            "id": self.id,
            "n": self.n,
            "cancelled": self.cancelled,
            "choices": [_choice(one) for one in self.choices],
        }


@dataclass(frozen=True)
class Failed:
    """Something is wrong.

    Attributes:
        id: of the generation; None where it is about a message only.
        n: its number, where it is the end of a generation that was accepted.
    """

    error: EdgewiseError
    id: str | None = None
    n: int | None = None

    def to_json(self) -> dict[str, Any]:
        error = self.error
        return {
            "type": "error",
            **({} if self.id is None else {"id": self.id}),
            **({} if self.n is None else {"n": self.n}),
            "code": error.code,
            "message": error.message,
            "remedy": error.remedy,
        }


@dataclass(frozen=True)
class Pong:
    """Somebody is there."""

    echo: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"type": "pong", "echo": self.echo}


ServerMessage: TypeAlias = Accepted | Piece | Done | Failed | Pong


class Written(Protocol):
    """A message of ours."""

    def to_json(self) -> dict[str, Any]: ...


def write(message: Written) -> str:
    """A message as a text frame has it: JSON, all of it ASCII, since models may write anything.

    Raises ValueError for numbers that JSON does not have.
    """
    return json.dumps(message.to_json(), allow_nan=False, separators=(",", ":"))


def read(text: str) -> ClientMessage:
    """A client's message.

    Raises:
        MessageError: for JSON that is none, is too deep or too much, and for any message that is
            not as docs/protocol.md has it; fields that it does not have are refused.
    """
    value: Any = None
    try:
        value = parse_json(
            text.encode(), _MESSAGE, InputError, what="message", remedy=_REMEDY, most=MAX_VALUES
        )
        _check_characters(text, value)
        fields = Fields(value, _MESSAGE, InputError)
        kind = fields.get("type")
        known = {**_READERS, **TAB_READERS}
        reader = known.get(kind) if isinstance(kind, str) else None
        if reader is None:
            listed = ", ".join(known)
            raise fields.fail("message", f"'type' is {shorten(kind)} and none of {listed}", _REMEDY)
        message = reader(fields)
        fields.done()
        return message
    except EdgewiseError as error:
        raise MessageError(error, _id_of(value)) from error


def _generate(fields: Fields) -> Start:
    prompt = fields.get("prompt")
    if not isinstance(prompt, str):
        prompt = fields.integers("prompt", 0, MAX_TOKEN, most=MAX_VALUES)
    return _start(fields, Ask(prompt=prompt, tools=_tools(fields), options=_options(fields)))


def _chat(fields: Fields) -> Start:
    variables = (
        fields.table("variables", most=MAX_VARIABLES, pattern=None)
        if fields.has("variables")
        else None
    )
    messages = _objects(fields, "messages", MAX_MESSAGES)
    asked = Ask(
        messages=messages, tools=_tools(fields), variables=variables, options=_options(fields)
    )
    return _start(fields, asked)


def _start(fields: Fields, ask: Ask) -> Start:
    return Start(fields.text("id", ID), fields.text("model", most=MAX_NAME), ask)


def _cancel(fields: Fields) -> Cancel:
    return Cancel(fields.text("id", ID))


def _resume(fields: Fields) -> Resume:
    after = fields.integer("after", -1, MAX_NUMBER)
    return Resume(fields.text("id", ID), fields.text("secret", SECRET), after)


def _ping(fields: Fields) -> Ping:
    return Ping(fields.text("echo", most=MAX_ECHO) if fields.has("echo") else "")


_READERS: Mapping[str, Callable[[Fields], ClientMessage]] = {
    "generate": _generate,
    "chat": _chat,
    "cancel": _cancel,
    "resume": _resume,
    "ping": _ping,
}

CLIENT_TYPES = frozenset(_READERS)


def _tools(fields: Fields) -> list[dict[str, Any]] | None:
    return _objects(fields, "tools", MAX_TOOLS) if fields.has("tools") else None


def _objects(fields: Fields, key: str, most: int) -> list[dict[str, Any]]:
    items = fields.items(key, most=most)
    for item in items:
        if not isinstance(item, dict):
            raise fields.fail("type", f"{key!r} holds {shorten(item)}, which is no object")
    return items


def _options(fields: Fields) -> dict[str, Any]:
    if not fields.has("options"):
        return {}
    options = fields.table("options", most=len(OPTIONS), pattern=None)
    if unknown := sorted(options.keys() - OPTIONS):
        raise fields.fail("option", f"there is no option {shorten(unknown[0])}", _REMEDY)
    return options


def _check_characters(text: str, value: Any) -> None:
    if not _HALF.search(text):
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as cause:
        raise InputError(
            f"{_MESSAGE} has half a character in it.",
            remedy="Write characters beyond \\uffff as two escapes, or as they are.",
            code="input.message",
        ) from cause


def _id_of(value: Any) -> str | None:
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) and ID.fullmatch(found) else None


_DELTAS: Mapping[type[Delta], tuple[str, tuple[str, ...]]] = {
    Content: ("content", ("text",)),
    Reasoning: ("reasoning", ("text",)),
    CallBegins: ("call_begins", ("index", "id", "name")),
    Arguments: ("arguments", ("index", "text")),
    CallEnds: ("call_ends", ("index",)),
    NoCall: ("no_call", ("index", "text", "why")),
}


def _delta(delta: Delta) -> dict[str, Any]:
    kind, names = _DELTAS[type(delta)]
    return {"type": kind, **{name: getattr(delta, name) for name in names}}


def _token(token: TokenSaid) -> dict[str, Any]:
    return {
        "id": token.id,
        **_likely(token.text, token.data, token.logprob),
        "top": [_likely(*one) for one in token.top],
    }


def _likely(text: str, data: bytes, logprob: float) -> dict[str, Any]:
    return {"text": text, "bytes": list(data), "logprob": max(logprob, LEAST_LOGPROB)}


def _choice(ended: Ended) -> dict[str, Any]:
    usage = ended.usage
    return {
        "index": ended.index,
        "reason": ended.finish_reason,
        "stop": ended.stop,
        "text": ended.text,
        "reasoning": ended.reasoning,
        "calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in ended.calls
        ],
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
            "cached_tokens": usage.cached_tokens,
        },
        "timings": dict(ended.timings),
        "seed": ended.seed,
        "context_full": ended.context_full,
        "dropped_turns": ended.dropped_turns,
    }
