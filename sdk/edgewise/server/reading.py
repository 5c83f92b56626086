"""Bodies of requests: bounded before they are read, and checked before they are believed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import to_thread
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from edgewise.server.content import REMEDY, check_type
from edgewise_runtime.errors import EngineError, InputError
from edgewise_runtime.format.reading import MAX_NESTING, count_values, parse_json, shorten

MAX_BODY = 32 << 20
"""Bytes of one body."""
MAX_BODIES = 4 * MAX_BODY
"""Bytes of all bodies that are being read, or whose JSON is."""
MAX_VALUES = 1 << 20
"""Lists, objects and commas of one body."""
BODY_SECONDS = 60.0
"""For all of a body to come."""
AT_ONCE = 64 << 10
"""Bytes whose JSON is read where they came; more are read on a thread, and hold up nobody."""

M = TypeVar("M", bound=BaseModel)
# Always matches from a quote on, and never goes back: no text takes longer than it is long.
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_STRING = re.compile(_TEXT, re.DOTALL)
_PART = re.compile(rb'(?:[^"]{1,4096}+|%b){1,1024}+' % _TEXT, re.DOTALL)
"""So much that no text is cut: each call of a pattern holds up every thread until it is done."""
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


async def read_body(request: Request, model: type[M]) -> M:
    """The body of a request as what is expected of it.

    Raises:
        InputError: ``input.body_type`` for what says that it is no JSON, or compressed;
            ``input.body_size`` for more than `MAX_BODY` bytes or `MAX_VALUES` values;
            ``input.body_slow`` where it does not come within `BODY_SECONDS`; ``input.body`` for
            what is no JSON, nests too deeply or is not as the model has it.
        EngineError: ``engine.busy`` where the bodies of others take all the room there is.
        ClientDisconnect: where the client has left.
    """
    check_type(request.headers)
    with _room(request).held() as held:
        data = await _received(request, held)
        if len(data) <= AT_ONCE:
            return read_data(data, model)
        return await to_thread.run_sync(read_data, data, model)


def read_query(request: Request, model: type[M]) -> M:
    """The query of a request as what is expected of it; of a field that comes twice the last.

    Raises InputError ``input.body``.
    """
    try:
        return model.model_validate_strings(dict(request.query_params))
    except ValidationError as error:
        raise _said(error) from error


def check_depth(data: bytes) -> None:
    """Refuse JSON that nests too deeply, before a parser sees it.

    Raises InputError ``input.body``.
    """
    depth = 0
    for part in _PART.finditer(data):
        for byte in _STRING.sub(b"", part[0]).translate(None, _NO_BRACKETS):
            depth += 1 if byte in b"[{" else -1
            if depth > MAX_NESTING:
                raise InputError(
                    f"The body has lists and objects more than {MAX_NESTING} deep in one another.",
                    remedy=REMEDY,
                    code="input.body",
                )


@dataclass
class Room:
    """Bytes of bodies that an application is reading now."""

    most: int = MAX_BODIES
    taken: int = 0

    @contextmanager
    def held(self) -> Iterator[_Held]:
        """What one body takes, given back at the end of the block."""
        held = _Held(self)
        try:
            yield held
        finally:
            self.taken -= held.bytes


@dataclass
class _Held:
    room: Room
    bytes: int = 0

    def grow(self, to: int) -> None:
        """Take room for a body of so many bytes. Raises EngineError ``engine.busy``."""
        more = max(to - self.bytes, 0)
        if self.room.taken + more > self.room.most:
            raise EngineError(
                f"Bodies of other requests take {self.room.taken:,} bytes; there is no room for "
                f"{to:,} more.",
                remedy="Ask again in a moment.",
                code="engine.busy",
            )
        self.room.taken += more
        self.bytes += more


def _room(request: Request) -> Room:
    state = request.app.state
    if not hasattr(state, "bodies"):
        state.bodies = Room()
    room: Room = state.bodies
    return room


async def _received(request: Request, held: _Held) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdecimal():
        _check_size(int(length[:20]))
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                _check_size(len(data) + len(piece))
                held.grow(len(data) + len(piece))
                data += piece
    except TimeoutError as cause:
        raise InputError(
            f"Of the body {len(data):,} bytes came in {BODY_SECONDS:g} seconds.",
            remedy="Send it faster, or less of it.",
            code="input.body_slow",
        ) from cause
    return bytes(data)


def _check_size(size: int) -> None:
    if size > MAX_BODY:
        raise InputError(
            f"The body has {size:,} bytes or more; {MAX_BODY:,} are read at most.",
            remedy="Send less at a time.",
            code="input.body_size",
        )


def read_data(data: bytes, model: type[M]) -> M:
    """A body that has come, as what is expected of it.

    Raises InputError ``input.body_size`` for too many values, ``input.body``.
    """
    if (values := count_values(data)) > MAX_VALUES:
        raise InputError(
            f"The body has {values:,} lists, objects and commas; {MAX_VALUES:,} are read at most.",
            remedy="Send less at a time.",
            code="input.body_size",
        )
    check_depth(data)
    value = parse_json(data, "The body", InputError, what="body", remedy=REMEDY)
    # Only an escape can write half of a character: UTF-8 has none.
    if b"\\ud" in data.lower() and _has_halves(value):
        raise InputError(
            "The body has half a character in it.",
            remedy="Write characters beyond \\uffff as two escapes, or as they are.",
            code="input.body",
        )
    return read_value(value, model)


def read_value(value: Any, model: type[M]) -> M:
    """A value of JSON as what is expected of it.

    Raises InputError ``input.body``.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _said(error) from error


def _has_halves(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_has_halves(one) for pair in value.items() for one in pair)
    return isinstance(value, list) and any(map(_has_halves, value))


def _said(error: ValidationError) -> BodyError:
    """The first thing that is wrong, by where it is."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part)[:80] for part in first["loc"])
    asked = first["input"]
    found = "" if first["type"] == "missing" else f", and it is {shorten(asked)}"
    count = error.error_count()
    more = f" {count - 1} more things are wrong." if count > 1 else ""
    said = first["msg"].removeprefix("Value error, ")
    return BodyError(f"{where or 'The body'}: {said}{found}.{more}", where)


class BodyError(InputError):
    """A body that is JSON, and not as its API has it.

    Attributes:
        where: the path of the field, such as ``messages.0.content``.
    """

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message, code="input.body")
        self.where = where
