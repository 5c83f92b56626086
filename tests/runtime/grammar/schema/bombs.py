"""Schemas that would come to too much, for both languages to refuse in little time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _within(count: int, outer: Callable[[Any], Any], schema: Any) -> Any:
    for _ in range(count):
        schema = outer(schema)
    return schema


def _chain(count: int, each: Callable[[dict[str, str]], Any]) -> dict[str, Any]:
    """Definitions of which each is made of a reference to the next."""
    links = {str(i): each({"$ref": f"#/$defs/{i + 1}"}) for i in range(count)}
    return {"$defs": links | {str(count): {"type": "null"}}, "$ref": "#/$defs/0"}


def _choices(count: int, each: Callable[[int, int], Any]) -> dict[str, Any]:
    """All of some choices of four."""
    return {"allOf": [{"anyOf": [each(i, j) for j in range(4)]} for i in range(count)]}


BOMBS: dict[str, Any] = {
    "choices of references that double": _chain(60, lambda link: {"anyOf": [link, link]}),
    "arrays within arrays by references": _chain(5000, lambda link: {"items": link}),
    "choices times choices": _choices(12, lambda i, j: {"properties": {f"a{i}{j}": {"const": j}}}),
    "bounds times bounds": _choices(30, lambda i, j: {"properties": {"a": {"minimum": i * j}}}),
    "values by the thousand": {"enum": list(range(60_000))},
    "values by the thousand, again and again": {
        "$defs": {"e": {"enum": list(range(2000))}},
        "properties": {f"k{i}": {"$ref": "#/$defs/e", "maximum": 10**9 + i} for i in range(1000)},
    },
    "a billion items": {"type": "array", "minItems": 10**9},
    "a billion characters": {"type": "string", "minLength": 10**9},
    "schemas within schemas": _within(1000, lambda inner: {"allOf": [inner]}, {"type": "null"}),
    "schemas that double": _within(16, lambda inner: {"allOf": [inner, inner]}, {"type": "null"}),
    "names by the thousand": {"properties": {f"k{i}": {"type": "string"} for i in range(12_000)}},
    "names that are asked for": {"required": [f"k{i}" for i in range(5000)]},
    "long names beside others": {
        "properties": {f"k{i}" * 30: {"type": "string"} for i in range(500)},
        "additionalProperties": True,
    },
    "first items by the thousand": {"prefixItems": [{"type": "string"}] * 5000},
    "a long text": {"const": "x" * (1 << 21)},
    "a pattern of many characters": {"pattern": "(((a{100}){100}){100})"},
    "exactly one of many": {"oneOf": [{"const": i} for i in range(300)]},
}

LARGE: dict[str, Any] = {
    "references that double": _chain(
        60, lambda link: {"properties": {"a": link, "b": link}, "required": ["a", "b"]}
    ),
    "a chain of references": _chain(5000, lambda link: link),
    "arrays within arrays": _within(60, lambda inner: {"items": inner}, {"type": "null"}),
    "a billion items at most": {"items": {"type": "null"}, "maxItems": 10**9},
    "a number of values": {"enum": [f"value {i}" for i in range(10_000)]},
    "a number of first items": {"prefixItems": [{"type": "string"}] * 4000, "minItems": 4000},
    "multiples of much": {"type": "integer", "multipleOf": 64, "maximum": 123456789012},
}
"""Schemas that look like bombs, and are none."""
