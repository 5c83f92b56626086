"""Arguments that a model writes as plain text, made JSON by what a tool's schema says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from edgewise_runtime.calls.json_scanner import escaped, is_json
from edgewise_runtime.calls.source import SPACE, Tools

_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": "true", "1": "true", "false": "false", "0": "false"}


def types_of(tools: Tools | None, tool: str, key: str) -> tuple[str, ...]:
    """The types that a tool's schema allows an argument, in order; empty where it does not say."""
    properties = ((tools or {}).get(tool) or {}).get("properties")
    schema = properties.get(key) if isinstance(properties, Mapping) else None
    if not isinstance(schema, Mapping):
        return ()
    found = [*_named(schema)]
    for word in ("anyOf", "oneOf"):
        choices = schema.get(word)
        for choice in choices if isinstance(choices, list) else ():
            found += _named(choice) if isinstance(choice, Mapping) else ()
    if found and schema.get("nullable") is True:
        found.append("null")
    return tuple(found)


def _named(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("type")
    given = named if isinstance(named, list) else [named]
    return [name for name in given if isinstance(name, str)]


def is_text(types: tuple[str, ...]) -> bool:
    """Whether an argument of these types is a string whatever is written."""
    return not any(name in _READ for name in types)


def typed(text: str, types: tuple[str, ...]) -> str:
    """The JSON of a text: of the first type that it can be read as, else of a string."""
    bare = text.strip(SPACE)
    for name in types:
        found = _READ[name](bare) if name in _READ else None
        if found is not None:
            return found
    return f'"{escaped(text)}"'


def _integer(text: str) -> str | None:
    found = _INTEGER.fullmatch(text)
    return found[1] if found else None


_READ: Mapping[str, Callable[[str], str | None]] = {
    "integer": _integer,
    "number": lambda text: text if _NUMBER.fullmatch(text) else None,
    "boolean": lambda text: _BOOLEANS.get(text.lower()),
    "null": lambda text: "null" if text in ("null", "None") else None,
    "object": lambda text: text if is_json(text, "{") else None,
    "array": lambda text: text if is_json(text, "[") else None,
}
