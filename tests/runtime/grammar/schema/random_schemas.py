"""Schemas at random, most of which are supported."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

_NAMES = ("a", "b", 'c"', "é", "10", "ab")
_VALUES: tuple[Any, ...] = (None, True, 0, -1, 2.5, 1e-7, "", "a", 'é"\n', [1], {"b": [], "a": {}})
_BOUNDS = (-12, -1.5, 0, 0.1, 3, 7.25, 100, 12345, 1e15)
_FORMATS = ("date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "duration")
_PATTERNS = (
    "^[a-c]+$",
    "x",
    "^(ab|\\d{2})$",
    '^"',
    "^[\\u00e9\\\\]{1,3}$",
    "^\\w*$",
    "^a+[b\n]*c?",
)


def random_schema(random: Random) -> Any:
    """A schema, with definitions that it may refer to."""
    schema = _schema(random, 3)
    if isinstance(schema, dict):
        schema["$defs"] = {"x": _schema(random, 2), "y": _schema(random, 1)}
    return schema


def _schema(random: Random, depth: int) -> Any:
    kinds: list[Callable[[Random, int], Any]] = [_number, _string, _named, _types, _reference]
    if depth:
        kinds += [_array, _object, _object, _combined]
    if random.random() < 0.04:
        return random.random() < 0.7
    return random.choice(kinds)(random, depth)


def _some(random: Random, **keywords: Any) -> dict[str, Any]:
    """Some of the keywords."""
    return {name.rstrip("_"): value for name, value in keywords.items() if random.random() < 0.4}


def _number(random: Random, _: int) -> Any:
    bounds = sorted(random.choices(_BOUNDS, k=2))
    least = random.choice(["minimum", "exclusiveMinimum"])
    most = random.choice(["maximum", "exclusiveMaximum"])
    step = random.choice([1, 2, 3, 5, 10, 12, 25, 64, 300, 0.5])
    schema = _some(random, **{least: bounds[0], most: bounds[1], "title": "t"})
    if random.random() < 0.3:
        schema["multipleOf"] = step
    return {"type": random.choice(["integer", "number"]), **schema}


def _string(random: Random, _: int) -> Any:
    lengths = sorted(random.choices(range(5), k=2))
    schema = _some(random, minLength=lengths[0], maxLength=lengths[1])
    if random.random() < 0.3:
        schema = {"pattern": random.choice(_PATTERNS), **(schema if random.random() < 0.5 else {})}
    elif random.random() < 0.3:
        schema = {"format": random.choice(_FORMATS)}
    return {"type": "string", **schema}


def _named(random: Random, _: int) -> Any:
    if random.random() < 0.3:
        return {"const": random.choice(_VALUES)}
    return {"enum": random.choices(_VALUES, k=3), **_some(random, type=["string", "number"])}


def _types(random: Random, _: int) -> Any:
    types = ["null", "boolean", "integer", "string", "number", "array", "object"]
    return {"type": random.sample(types, k=random.randint(1, 3))}


def _reference(random: Random, _: int) -> Any:
    places = ["#/$defs/x", "#/$defs/y", "#"]
    return {"$ref": random.choice(places), **_some(random, description="d", minLength=1)}


def _array(random: Random, depth: int) -> Any:
    counts = sorted(random.choices(range(4), k=2))
    schema = _some(
        random,
        items=_schema(random, depth - 1),
        minItems=counts[0],
        maxItems=counts[1],
        uniqueItems=random.random() < 0.1,
        prefixItems=[_schema(random, depth - 1) for _ in range(random.randint(1, 3))],
    )
    return {"type": "array", **schema}


def _object(random: Random, depth: int) -> Any:
    names = random.sample(_NAMES, k=random.randint(0, 4))
    schema = _some(
        random,
        required=random.sample(_NAMES, k=random.randint(0, 2)),
        additionalProperties=_schema(random, depth - 1),
        minProperties=random.randint(0, 2),
        maxProperties=random.randint(2, 5),
        propertyNames={"maxLength": random.randint(1, 2)},
    )
    if random.random() < 0.8:
        schema["properties"] = {name: _schema(random, depth - 1) for name in names}
    elif random.random() < 0.5:
        schema["patternProperties"] = {"^[xy]+$": _schema(random, depth - 1)}
    return {"type": "object", **schema}


def _combined(random: Random, depth: int) -> Any:
    keyword = random.choice(["anyOf", "anyOf", "allOf", "oneOf"])
    schemas = [_schema(random, depth - 1) for _ in range(random.randint(1, 3))]
    return {keyword: schemas, **_some(random, type=["string", "object", "null"])}
