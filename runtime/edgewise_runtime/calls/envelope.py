"""Calls as JSON objects with a name and arguments, which most formats put between their marks."""

from __future__ import annotations

import json

from edgewise_runtime.calls.json_scanner import is_json
from edgewise_runtime.calls.source import NotACallError, Reading, Source

ARGUMENTS = ("arguments", "parameters")
IGNORED = ("id", "type")
"""Keys that some models write, with strings that say nothing more."""


def call(source: Source, *, known: bool = False) -> Reading[None]:
    """Read ``{"name": "f", "arguments": {...}}``, from its brace on.

    The keys may be in either order; the arguments may be a string with the JSON in it, or missing.

    Args:
        known: names that are no tool's make it none, where tools are known.
    """
    yield from source.expect("{")
    name, begun = "", False
    held: list[str] = []
    while True:
        yield from source.spaces()
        key = yield from _string(source)
        yield from source.spaces()
        yield from source.expect(":")
        yield from source.spaces()
        if key == "name" and not name:
            name = yield from _string(source)
            if known and source.tools is not None and name not in source.tools:
                raise NotACallError
        elif key in ARGUMENTS and name and not begun and not held:
            source.begin(name)
            begun = True
            yield from arguments(source)
        elif key in ARGUMENTS and not begun and not held:
            yield from source.json(held.append)
        elif key in IGNORED:
            yield from _string(source)
        else:
            raise NotACallError
        yield from source.spaces()
        if (yield from source.expect(",", "}")) == "}":
            break
    if not begun:
        if not name:
            raise NotACallError
        source.begin(name)
        source.arguments(_object("".join(held) or "null"))
    source.end()


def call_list(source: Source, *, known: bool = False) -> Reading[None]:
    """Read such objects in an array, from its bracket on."""
    yield from source.expect("[")
    while True:
        yield from source.spaces()
        yield from call(source, known=known)
        yield from source.spaces()
        if (yield from source.expect(",", "]")) == "]":
            return


def arguments(source: Source) -> Reading[None]:
    """Read the arguments of the call that has begun."""
    if (yield from source.peek()) == "{":
        yield from source.json(source.arguments)
    else:
        held: list[str] = []
        yield from source.json(held.append)
        source.arguments(_object("".join(held)))


def _object(text: str) -> str:
    """Arguments as a JSON object: what a string has in it, and an empty one for null."""
    if text.startswith('"'):
        text = str(json.loads(text))
    if text in ("null", ""):
        return "{}"
    if not is_json(text, "{"):
        raise NotACallError
    return text


def _string(source: Source) -> Reading[str]:
    if (yield from source.peek()) not in ('"', ""):
        raise NotACallError
    held: list[str] = []
    yield from source.json(held.append)
    return str(json.loads("".join(held)))
