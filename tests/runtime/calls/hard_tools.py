"""Tools at random whose arguments are hard to write where nothing is quoted as in JSON."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.runtime.calls.toolsets import Tools, taking

TYPES = ("string", "null", "boolean", "integer", "number", "array", "object")
TEXTS = (
    *("null", "None", "true", "True", "1", "0", "5", "5.0", "-0.5", "1e+3", "{}", "[]", "[1]"),
    *('{"a": 1}', "<", "</parameter", "</parameter>", "<escape>", '<|"|>', "\n", "\nx\n", ""),
    *(" null ", " ", "a", "'", '"', "\\", "\b\f"),
)
VALUES: tuple[Any, ...] = (None, True, False, 0, 1, 5, 2.5, [], [1], {}, {"a": 1}, {"a b": "<"})
PATTERNS = (
    *("^[<a]*$", "<", "^(null|x)$", r"^\d+$", "^.{2}$", "^[^a]+$", "^(<b>)?.*</b>$"),
    *(r"[\s\S]*", "^<?/parameter>$"),
)


def _values(random: Random) -> list[Any]:
    return random.sample([*TEXTS, *VALUES], random.randint(1, 5))


KINDS: tuple[Callable[[Random], dict[str, Any]], ...] = (
    lambda random: {"enum": _values(random)},
    lambda random: {"const": _values(random)[0]},
    lambda random: {"type": random.choice(TYPES)},
    lambda random: {"type": random.sample(TYPES, 2)},
    lambda random: {"type": random.sample(TYPES[:5], 2), "enum": _values(random)},
    lambda random: {
        "type": "string",
        random.choice(["minLength", "maxLength"]): random.randint(0, 3),
    },
    lambda random: {"type": "string", "pattern": random.choice(PATTERNS)},
    lambda random: {"type": "integer", "minimum": random.randint(-2, 3), "maximum": 9},
    lambda random: {"$ref": f"#/$defs/{random.choice('pq')}"},
    lambda random: {"type": "array", "items": {"type": random.choice(TYPES)}, "maxItems": 2},
)


def _schema(random: Random) -> dict[str, Any]:
    return random.choice(KINDS)(random)


def _argument(random: Random) -> dict[str, Any]:
    match random.randint(0, 5):
        case 0:
            return {"anyOf": [_schema(random) for _ in range(random.randint(1, 3))]}
        case 1:
            return {"oneOf": [_schema(random) for _ in range(random.randint(1, 2))]}
        case 2:
            return {"allOf": [_schema(random)], "description": "d"}
    return _schema(random)


def hard_tools(random: Random) -> Tools:
    """One tool, with arguments some of which no notation may have a way to write."""
    names = random.sample(["a", "b", "Cc", "d_1"], random.randint(1, 2))
    arguments = {name: _argument(random) for name in names}
    required = [name for name in names if random.random() < 0.7]
    shared = {name: random.choice(KINDS[:8])(random) for name in "pq"}
    return {"f": taking(arguments, *required, **{"$defs": shared})}
