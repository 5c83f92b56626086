"""Frames between a server and the processes of its models: JSON with its length before it.

Both sides are ours, but what a frame holds may come from a client, or from a process that has gone
wrong: lengths, values and nesting are bounded, and whatever is sent would be read.
"""

from __future__ import annotations

import json
import struct
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

from edgewise.hosting.base import Ended, Event, Json, Said
from edgewise.hosting.typed import MisfitError, reader_of
from edgewise_runtime import errors
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError
from edgewise_runtime.format.reading import SPARE, memory_of, parse_json, shorten

MAX_FRAME = 64 << 20
"""Bytes of a frame, its length not counted."""
MAX_DEPTH = 56
"""Lists and objects around a value of what is sent; a frame adds some."""

TOGETHER = 128 << 10
"""Bytes of lists that share a frame. To parse no more than that never takes `SPARE`."""
SEVERAL = b"several"
"""The first word of a frame of several lists."""

_HEAD = struct.Struct(">I")
_JSON = json.JSONEncoder(separators=(",", ":"))
_PLAIN, _LISTS = (str, int, float, bool), (list, tuple)
_ERRORS: dict[str, type[EdgewiseError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, EdgewiseError)
}
T = TypeVar("T")


def frame(*values: Any) -> bytes:
    """The frame of a list of JSON values, dataclasses and bytes. Raises as `text`."""
    data = text(*values)
    return _HEAD.pack(len(data)) + data


def frames(texts: Sequence[bytes]) -> bytes:
    """The same lists, each as `text` has it, in as few frames as is good: see `lists_of`."""
    found: list[bytes] = []
    for group in _groups(texts):
        data = group[0] if len(group) == 1 else b'["%b",%b]' % (SEVERAL, b",".join(group))
        found += (_HEAD.pack(len(data)), data)
    return b"".join(found)


def lists_of(values: list[Json]) -> list[Json]:
    """The lists of a frame: those in it where it has several, else itself."""
    return values[1:] if values[:1] == [SEVERAL.decode()] else [values]


def text(*values: Any) -> bytes:
    """A list of JSON values, dataclasses and bytes, see `encoded`, as a frame has it.

    Raises:
        InputError: ``input.json`` for what is no JSON, ``input.size`` for what no frame holds.
    """
    try:
        data = _JSON.encode(encoded(values)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"This is no JSON: {error}.", code="input.json") from error
    if len(data) > TOGETHER and (len(data) > MAX_FRAME or memory_of(data) > SPARE):
        raise InputError(
            f"This has {len(data):,} bytes as JSON, or too many values; {MAX_FRAME:,} bytes go to "
            "a model at most.",
            remedy="Shorten it.",
            code="input.size",
        )
    return data


async def read_frame(reader: StreamReader) -> list[Json] | None:
    """The next frame's list; None at the end, though it be within a frame.

    Raises:
        EngineError: ``engine.wire`` for what is no frame, ``engine.size`` for one that is too
            large.
    """
    try:
        (size,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if size > MAX_FRAME:
            raise EngineError(
                f"A frame has {size:,} bytes; {MAX_FRAME:,} are read at most.", code="engine.size"
            )
        data = await reader.readexactly(size)
    except (IncompleteReadError, ConnectionError):
        return None
    value = parse_json(data, "A frame", EngineError, what="wire", constants=True)
    if not isinstance(value, list):
        raise EngineError(f"A frame is {shorten(value)}, no list.", code="engine.wire")
    return value


def encoded(value: Any, depth: int = 0) -> Json:
    """A value as JSON: a dataclass is its name and its fields, bytes are text of as many letters.

    Raises TypeError and ValueError for what JSON does not have, and for what nests too deeply.
    """
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if depth > MAX_DEPTH:
        raise ValueError(f"it nests more than {MAX_DEPTH} levels")
    if isinstance(value, _LISTS):
        # What is plain is most of it.
        return [item if type(item) in _PLAIN else encoded(item, depth + 1) for item in value]
    if isinstance(value, Mapping):
        found = {_key(key): encoded(item, depth + 1) for key, item in value.items()}
        if len(found) < len(value):
            raise ValueError("two keys of an object are the same as text")
        return found
    if is_dataclass(kind := type(value)):
        held = [getattr(value, name) for name in _fields_of(kind)]
        return [kind.__name__, *encoded(held, depth)]
    raise TypeError(f"{shorten(value)} is of {type(value).__name__}")


def decoded(kind: type[T], value: Json) -> T:
    """The dataclass that `encoded` made this of.

    Raises EngineError ``engine.wire`` for anything else.
    """
    hint: Any = kind
    try:
        found: T = reader_of(hint)(value)
    except MisfitError as error:
        raise EngineError(
            f"{shorten(value)} is no {kind.__name__}: {error}.", code="engine.wire"
        ) from error
    return found


def decoded_event(value: Json) -> Event:
    """The same of what a model says."""
    name = value[0] if isinstance(value, list) and value else None
    return decoded(Said, value) if name == "Said" else decoded(Ended, value)


def encoded_error(error: BaseException) -> Json:
    """What went wrong, to be raised on the other side."""
    if not isinstance(error, EdgewiseError):
        error = EngineError(
            f"Something went wrong in the model's process: {type(error).__name__}: "
            f"{shorten(str(error), 200)}.",
            remedy="Its standard error says where.",
            code="internal",
        )
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind in _ERRORS.values())
    return [kind, error.code, error.message, error.remedy]


def decoded_error(value: Json) -> EdgewiseError:
    """The error that `encoded_error` made this of; what is none is one of its own."""
    if isinstance(value, list) and len(value) == 4 and all(isinstance(one, str) for one in value):
        name, code, message, remedy = value
        return _ERRORS.get(name, EdgewiseError)(message, remedy=remedy, code=code)
    return EngineError(f"{shorten(value)} is no error.", code="engine.wire")


def _groups(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    first, size = 0, 0
    for at, one in enumerate(texts):
        if size + len(one) > TOGETHER and at > first:
            yield texts[first:at]
            first, size = at, 0
        size += len(one) + 1
    if first < len(texts):
        yield texts[first:]


@lru_cache(maxsize=64)
def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    # Of JSON's objects keys are text; token ids are what else there is.
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"the key {shorten(key)} is of {type(key).__name__}")
