"""Arguments that a model writes as plain text, made JSON by what a tool's schema says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from edgewise_runtime.calls.json_scanner import escaped, is_json
from edgewise_runtime.calls.source import SPACE, Tools
from edgewise_runtime.grammar.schema.keywords import ANNOTATIONS

_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": "true", "1": "true", "false": "false", "0": "false"}


def types_of(tools: Tools | None, tool: str, key: str) -> tuple[str, ...]:
    """The types that a tool's schema allows an argument, in order; empty where it does not say.

    Those of references within the schema and of values that are named count, too.
    """
    root = (tools or {}).get(tool)
    found: list[str] = []
    schemas: list[Any] = [_member(_member(root, "properties"), key)]
    seen: set[int] = set()
    nullable = False
    for schema in schemas:  # grows meanwhile
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        found += _named(schema)
        for word in ("allOf", "anyOf", "oneOf"):
            choices = schema.get(word)
            schemas += choices if isinstance(choices, list) else ()
        if isinstance(schema.get("$ref"), str):
            schemas.append(_referred(root, schema["$ref"]))
        nullable = nullable or schema.get("nullable") is True
    return tuple(dict.fromkeys([*found, "null"] if found and nullable else found))


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _referred(root: Any, reference: str) -> Any:
    """What a JSON pointer (RFC 6901) behind ``#`` leads to; None where it leads to nothing."""
    if not reference.startswith("#/"):
        return root if reference == "#" else None
    for part in reference[2:].split("/"):
        root = _member(root, part.replace("~1", "/").replace("~0", "~"))
    return root


def _named(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("type")
    given = named if isinstance(named, list) else [named]
    if found := [name for name in given if isinstance(name, str)]:
        return found
    values = schema.get("enum")
    some = [schema["const"]] if "const" in schema else values if isinstance(values, list) else []
    return [_type_of(value) for value in some]


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "object")


def is_text(types: tuple[str, ...]) -> bool:
    """Whether an argument of these types is a string whatever is written."""
    return not any(name in _READ for name in types)


def reads_back(kinds: Collection[str], types: tuple[str, ...], schema: object) -> bool:
    """Whether values of some kinds, written as JSON but texts as they are, are read as valid ones.

    Args:
        kinds: of values under a schema; all numbers are ``number``.
        types: what `types_of` says of it.
        schema: of the argument.
    """
    if _is_plain(schema):
        return True
    read = {"number" if name == "integer" else name for name in types if name in _READ}
    if "string" in kinds:
        return read <= {"null"} and set(kinds) == {"string", *read}
    return set(kinds) <= read and not {"boolean", "number"} <= read


def _is_plain(schema: object) -> bool:
    """Whether a schema says only types, so that whatever is read as one of them is valid."""
    if not isinstance(schema, Mapping):
        return True
    choices = schema.get("anyOf", [])
    if not isinstance(choices, list) or ("type" in schema and choices):
        return False
    if not all(isinstance(choice, Mapping) for choice in choices):
        return False
    said = [set(schema) - {"anyOf"}, *(set(choice) for choice in choices)]
    return all(words - ANNOTATIONS <= {"type"} for words in said)


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
