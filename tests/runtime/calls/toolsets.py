"""Tools of all kinds, and those whose calls cannot be forced in some formats."""

from __future__ import annotations

from typing import Any

Tools = dict[str, dict[str, Any]]


def taking(properties: dict[str, Any], *required: str, **rest: Any) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    return {"type": "object", "properties": properties, "required": list(required), **rest}


STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
NULL = {"type": "null"}
TREE = {
    "type": "object",
    "properties": {
        "a b": {"type": ["number", "null"]},
        "leaf": BOOLEAN,
        "next": {"$ref": "#/$defs/tree"},
    },
    "required": ["leaf"],
}
TOOLSETS: dict[str, Tools] = {
    "one tool": {
        "get_weather": taking(
            {"city": STRING, "days": {"type": "integer", "minimum": 1, "maximum": 14}}, "city"
        )
    },
    "no arguments": {"now": taking({})},
    "names that begin alike": {"f": taking({}), "f2": taking({}), "f.g": taking({"f": STRING})},
    "beyond ASCII": {"größe": taking({"naïve": STRING, "日": {"enum": ["日本", "é😀"]}}, "日")},
    "texts": {
        "write": taking(
            {
                "any": STRING,
                "some": {"type": "string", "minLength": 1},
                "short": {"type": "string", "maxLength": 5},
                "tagged": {"type": "string", "pattern": "^<b>[a-z<]*</b>.*x$"},
                "of": {"enum": ['a"b', "c\\d\n", "<", "|"], "type": "string"},
                "day": {"type": "string", "format": "date"},
            },
            "some",
        )
    },
    "or nothing": {
        "find": taking(
            {
                "text": {"anyOf": [STRING, NULL]},
                "count": {"type": ["integer", "null"], "minimum": 3},
                "either": {"anyOf": [STRING, INTEGER, BOOLEAN]},
            }
        )
    },
    "values in values": {
        "plant": taking(
            {
                "tree": {"$ref": "#/$defs/tree"},
                "tags": {"type": "array", "items": STRING, "maxItems": 3},
                "pairs": {
                    "type": "array",
                    "prefixItems": [STRING, {"type": "number"}],
                    "minItems": 2,
                },
                "map": {"type": "object", "additionalProperties": STRING},
                "flag": BOOLEAN,
                "none": NULL,
            },
            "tree",
            **{"$defs": {"tree": TREE}},
        ),
        "water": taking(
            {"how": {"allOf": [{"$ref": "#/$defs/much"}]}},
            **{"$defs": {"much": {"enum": [1, 2.5]}}},
        ),
    },
    "names in no order": {
        "f": taking(
            {
                "b": {"type": "object", "properties": {"z": INTEGER, "Y": INTEGER, "é": INTEGER}},
                "A": {"anyOf": [{"$ref": "#/$defs/pair"}, NULL]},
                "a": {"type": "object", "properties": {"properties": INTEGER, "B": INTEGER}},
                "10": INTEGER,
                "9": INTEGER,
                "😀": INTEGER,
                "\ufffd": INTEGER,
                "_": {"enum": [1], "type": "integer"},
            },
            **{"$defs": {"pair": {"type": "object", "properties": {"2b": STRING, "2a": NULL}}}},
        )
    },
    "anything": {"keep": taking({"value": {}, "object": {"type": "object"}})},
}
OF_OBJECTS: dict[str, Tools] = {
    "open arguments": {"f": taking({"a": INTEGER}, additionalProperties=BOOLEAN)},
    "arguments without names": {"f": {"type": "object", "additionalProperties": STRING}},
    "a name with a space": {"f": taking({"a b": INTEGER})},
    "one of two": {"f": {"anyOf": [taking({"a": INTEGER}, "a"), taking({"b": INTEGER}, "b")]}},
}
"""Tools whose arguments only notations of whole objects can write."""
TYPED: dict[str, Tools] = {
    "a text or a small number": {
        "f": taking({"a": {"anyOf": [STRING, {"type": "integer", "maximum": 3}]}})
    },
    "a text that is named like nothing": {
        "f": taking({"a": {"enum": ["null", "x"], "type": ["string", "null"]}})
    },
    "true or one": {"f": taking({"a": {"enum": [True, 1]}})},
    "a text or a list of numbers": {
        "f": taking({"a": {"anyOf": [STRING, {"type": "array", "items": INTEGER}]}})
    },
}
"""Tools whose arguments need types that plain text does not tell."""
MARKED: dict[str, dict[str, Tools]] = {
    "qwen3_coder": {
        "the mark": {"f": taking({"a": {"enum": ["x</parameter>"]}})},
        "a part of it": {"f": taking({"a": {"type": "string", "pattern": "^</para[a-z]*$"}})},
        "a beginning of it": {"f": taking({"a": {"type": "string", "pattern": "^a<[a-z]$"}})},
    },
    "gemma4": {
        "the mark": {"f": taking({"a": {"const": '<|"|>'}})},
        "the mark in a name": {"f": taking({'<|"|>': INTEGER})},
    },
}
"""Tools with strings that the mark which ends strings stands in, by format."""
NAMES = ("f g", "", "x" * 129, "a{b", 'a"b')
"""What no tool can be called."""
