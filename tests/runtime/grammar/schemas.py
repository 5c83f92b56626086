"""Schemas that the tests of both languages lower."""

from __future__ import annotations

from typing import Any, NamedTuple


class Example(NamedTuple):
    """A schema, texts that are written under it, and texts that are not."""

    schema: Any
    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT = {"type": "string"}
_INTEGER = {"type": "integer"}

EXAMPLES: dict[str, Example] = {
    "anything": Example(
        True,
        ("null", "-1.5e+10", '"é\\n"', "[]", '[1, {"a": {}}]', '{"a": 1, "b": [true, false]}'),
        ("", "01", "nul", "[1,2]", '{"a":1}', "[1, ]", "'a'", '"\n"', "1 "),
    ),
    "types": Example({"type": "boolean"}, ("true", "false"), ("null", "True")),
    "several types": Example(
        {"type": ["string", "null", "integer"]}, ("null", '""', "-3"), ("1.5", "{}")
    ),
    "an integer": Example(
        _INTEGER,
        ("0", "-1", "999999999999999"),
        ("-0", "00", "1.0", "1e3", "1000000000000000"),
    ),
    "a number": Example(
        {"type": "number"}, ("0", "-0.5", "12.25", "1e+21", "3.5e-7"), (".5", "1.", "1E5", "+1")
    ),
    "values by name": Example(
        {"enum": ["a", 'b"\n', 1, 1.0, -0.25, None, True, {"é": [1, 2]}, 1e-7]},
        ('"a"', '"b\\"\\n"', "1", "-0.25", "null", '{"é": [1, 2]}', "0.0000001"),
        ('"b"', "1.0", '{"é":[1,2]}', "false"),
    ),
    "values by name under a type": Example(
        {"enum": ["a", "bcd", 3, 2.5], "type": ["string", "integer"], "maxLength": 2, "minimum": 1},
        ('"a"', "3"),
        ('"bcd"', "2.5"),
    ),
    "one value": Example({"const": {"b": 1, "a": [None]}}, ('{"b": 1, "a": [null]}',), ("{}",)),
    "an object": Example(
        _object("name", name=_TEXT, age=_INTEGER),
        ('{"name": "é"}', '{"name": "", "age": 3}'),
        ('{"age": 3}', '{"age": 3, "name": ""}', '{"name": "", "x": 1}', '{"name":""}'),
    ),
    "what may be missing first": Example(
        _object("c", a=_INTEGER, b=_INTEGER, c=_INTEGER, d=_INTEGER),
        ('{"c": 1}', '{"a": 1, "c": 1}', '{"b": 1, "c": 1, "d": 1}'),
        ('{"a": 1, "b": 1}', "{}", '{"c": 1, "a": 1}'),
    ),
    "what may all be missing": Example(
        _object(a=_INTEGER, b=_INTEGER, c=_INTEGER),
        ("{}", '{"a": 1}', '{"c": 1}', '{"a": 1, "c": 1}', '{"a": 1, "b": 1, "c": 1}'),
        ('{"b": 1, "a": 1}', '{, "a": 1}', '{"a": 1, }'),
    ),
    "at least one of what may be missing": Example(
        {**_object(a=_INTEGER, b=_INTEGER), "minProperties": 1}, ('{"b": 1}',), ("{}",)
    ),
    "names that are indices, or methods": Example(
        _object("b", "10", "9", "01", "__proto__", "b", b=True)
        | {"additionalProperties": _INTEGER},
        ('{"b": 1, "10": 1, "9": 1, "01": 1, "__proto__": 1, "toString": 2}',),
    ),
    "indices come first": Example(
        {"properties": {"b": True, "10": True, "9": True, "01": True}, "type": "object"},
        ('{"9": 1, "10": 2, "b": 3, "01": 4}',),
        ('{"b": 1, "9": 1}', '{"10": 1, "9": 1}'),
    ),
    "any object": Example({"type": "object"}, ("{}", '{"a": {"b": 1}}'), ("[]", '{"a"}')),
    "other names": Example(
        {**_object("a", "ab", a=_TEXT, ab=_TEXT), "additionalProperties": _INTEGER},
        (
            '{"a": "", "ab": ""}',
            '{"a": "", "ab": "", "": 1, "abc": 2, "aé": 1, "\\"": 3}',
            '{"a": "", "ab": "", "b": 1}',
        ),
        (
            '{"a": "", "ab": "", "ab": 1}',
            '{"a": "", "ab": "", "a": 1}',
            '{"a": "", "ab": "", "b": ""}',
        ),
    ),
    "a map": Example(
        {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 2},
        ("{}", '{"x": true}', '{"x": true, "y": false}'),
        ('{"x": 1}', '{"x": true, "y": true, "z": true}'),
    ),
    "names under a schema": Example(
        {"type": "object", "propertyNames": {"maxLength": 2}, "additionalProperties": _INTEGER},
        ('{"ab": 1}',),
        ('{"abc": 1}',),
    ),
    "names by name": Example(
        {"propertyNames": {"enum": ["x", "y"]}, "additionalProperties": _INTEGER},
        ('{"y": 1}',),
        ('{"z": 1}',),
    ),
    "names under a pattern": Example(
        {"patternProperties": {"^x-[a-z]+$": _INTEGER}, "additionalProperties": False},
        ("{}", '{"x-a": 1, "x-b": 2}'),
        ('{"x": 1}', '{"x-a": ""}'),
    ),
    "names that are asked for": Example(
        {"required": ["a", 'b"']}, ('{"a": 1, "b\\"": []}',), ('{"a": 1}', '{"a": 1, "a": 1}')
    ),
    "an array": Example(
        {"type": "array", "items": _INTEGER}, ("[]", "[1]", "[1, 2, 3]"), ("[1,2]", '["a"]')
    ),
    "a bounded array": Example(
        {"type": "array", "items": _INTEGER, "minItems": 2, "maxItems": 3},
        ("[1, 2]", "[1, 2, 3]"),
        ("[1]", "[]", "[1, 2, 3, 4]"),
    ),
    "no items": Example({"type": "array", "maxItems": 0}, ("[]",), ("[1]",)),
    "items that are all different": Example(
        {"type": "array", "items": {"enum": ["a", 1, None, 1.0]}, "uniqueItems": True},
        ("[]", '["a"]', "[1, null]", '["a", 1, null]'),
        ('["a", "a"]', "[null, 1]"),
    ),
    "all items of some": Example(
        {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"enum": [1, 2]}}}
        | {"uniqueItems": True, "minItems": 2, "maxItems": 5},
        ("[1, 2]",),
        ("[1]", "[1, 1]", "[]"),
    ),
    "first items": Example(
        {"prefixItems": [_TEXT, _INTEGER], "type": "array"},
        ("[]", '[""]', '["", 1]'),
        ('["", 1, 2]', "[1]", '["", ""]'),
    ),
    "first items and others": Example(
        {"prefixItems": [_TEXT, _INTEGER], "items": {"type": "null"}, "minItems": 1, "maxItems": 4},
        ('[""]', '["", 1, null, null]'),
        ("[]", '["", null]', '["", 1, null, null, null]'),
    ),
    "a tuple": Example(
        {"type": "array", "items": [_TEXT, _TEXT], "additionalItems": False, "minItems": 2},
        ('["a", "b"]',),
        ('["a"]', '["a", "b", "c"]'),
    ),
    "a length": Example(
        {"type": "string", "minLength": 1, "maxLength": 3},
        ('"a"', '"\\\\é😀"', '"\\u0001\\n\\""'),
        ('""', '"abcd"', '"\\u0041"', '"\\/"'),
    ),
    "a pattern": Example(
        {"type": "string", "pattern": "^[a-z]+(-[0-9]{2})?$"}, ('"ab-12"',), ('"ab-1"', '"A"')
    ),
    "a pattern anywhere": Example({"pattern": '"|b'}, ('"abc"', '"\\""'), ('"ac"',)),
    "a pattern with a length": Example(
        {"pattern": "^[a-z\\n]+$", "maxLength": 2}, ('"a"', '"\\nb"'), ('""', '"abc"')
    ),
    "a pattern with a length that its parts share": Example(
        {"pattern": "^[a-z\\\\]+@[a-z]*\\.é{1,2}$", "maxLength": 12, "minLength": 6},
        ('"abc@ab.é"', '"\\\\ab@.éé"'),
        ('"abcdefg@.é"', '"a@b.é"', '"a\\@bbb.é"'),
    ),
    "a pattern anywhere with a length": Example(
        {"pattern": "ab", "maxLength": 4}, ('"ab"', '"\\"ab\\n"'), ('"a"', '"abcde"', '"xxxab"')
    ),
    "a format with a length": Example(
        {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
        ('"https://example.org/a%20b?c=d#e"',),
        ('"example.org"', '""', '"https://example.org/a b"'),
    ),
    "a pattern whose length is known": Example(
        {"pattern": "^(ab|cde)$", "minLength": 2, "maxLength": 3}, ('"ab"', '"cde"'), ('"a"',)
    ),
    "a choice": Example(
        {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}, ('"a"', '["a"]'), ("1", "[1]")
    ),
    "a choice under more": Example(
        {"type": "string", "anyOf": [{"maxLength": 1}, {"const": "abc"}, {"type": "null"}]},
        ('"a"', '"abc"'),
        ('"ab"', "null"),
    ),
    "a reference": Example(
        {
            "$ref": "#/$defs/a~1b%25",
            "description": "beside it",
            "$defs": {"a/b%": {"type": "array", "items": {"$ref": "#/$defs/c"}}, "c": _INTEGER},
        },
        ("[1]",),
        ('["a"]',),
    ),
    "a list that holds itself": Example(
        {
            "definitions": {
                "node": _object("value", value=_INTEGER, next={"$ref": "#/definitions/node"})
            },
            "$ref": "#/definitions/node",
        },
        ('{"value": 1}', '{"value": 1, "next": {"value": 2, "next": {"value": 3}}}'),
        ('{"value": 1, "next": {}}',),
    ),
    "a tree": Example(
        _object("name", name=_TEXT, children={"type": "array", "items": {"$ref": "#"}}),
        ('{"name": "a", "children": [{"name": "b"}, {"name": "c", "children": []}]}',),
        ('{"children": []}',),
    ),
    "what never ends is left out": Example(
        _object(a=_INTEGER, b={"$ref": "#/$defs/b"})
        | {"$defs": {"b": _object("b", b={"$ref": "#/$defs/b"})}},
        ("{}", '{"a": 1}'),
        ('{"b": {}}',),
    ),
    "schemas together": Example(
        {
            "allOf": [
                _object("a", a={"type": ["string", "integer"]}, b=_TEXT),
                _object("b", a={"minimum": 3, "type": ["integer", "null"]}),
                {"properties": {"b": {"maxLength": 1}}},
            ]
        },
        ('{"a": 3, "b": "x"}',),
        ('{"a": 2, "b": "x"}', '{"a": "", "b": "x"}', '{"a": 3, "b": "xy"}', '{"a": 3}'),
    ),
    "a reference and more": Example(
        {"$ref": "#/$defs/a", "required": ["x"], "$defs": {"a": _object(x=_INTEGER, y=_TEXT)}},
        ('{"x": 1}', '{"x": 1, "y": ""}'),
        ("{}", '{"y": ""}'),
    ),
    "no other names beside a schema's": Example(
        {"allOf": [_object("b", b=_TEXT), {"additionalProperties": {"maxLength": 1}}]},
        ('{"b": "x"}',),
        ('{"b": "xy"}',),
    ),
    "exactly one type": Example(
        {"oneOf": [_TEXT, _INTEGER, {"type": "null"}]}, ('""', "1", "null"), ("1.5",)
    ),
    "exactly one kind of object": Example(
        {
            "oneOf": [
                _object("kind", kind={"const": "cat"}, lives=_INTEGER),
                _object("kind", kind={"enum": ["dog", "wolf"]}, name=_TEXT),
                {**_object("id", id=_INTEGER), "additionalProperties": False},
            ],
            "discriminator": {"propertyName": "kind"},
        },
        ('{"kind": "cat", "lives": 9}', '{"kind": "wolf"}', '{"id": 1}'),
        ('{"kind": "cat", "name": ""}', '{"id": 1, "kind": "cat"}'),
    ),
    "exactly one by what each needs": Example(
        {"oneOf": [_object("a", a=_INTEGER, c=_TEXT), _object("b", b=_INTEGER, c=_TEXT)]},
        ('{"a": 1, "c": ""}', '{"b": 1}'),
        ('{"a": 1, "b": 1}', '{"c": ""}', "{}"),
    ),
    "exactly one range": Example(
        {"type": "integer", "oneOf": [{"maximum": 3}, {"minimum": 4, "maximum": 5}]},
        ("-7", "3", "5"),
        ("6",),
    ),
    "a range of integers": Example(
        {"type": "integer", "minimum": -12, "maximum": 345},
        ("-12", "-1", "0", "9", "10", "99", "299", "345"),
        ("-13", "346", "-0", "1000", "-99"),
    ),
    "a range without its ends": Example(
        {"type": "integer", "exclusiveMinimum": 0.5, "exclusiveMaximum": 7}, ("1", "6"), ("0", "7")
    ),
    "integers from a bound": Example(
        {"type": "integer", "minimum": 18},
        ("18", "99", "100", "999999999999999"),
        ("17", "9", "-18"),
    ),
    "a range of numbers": Example(
        {"type": "number", "minimum": -1.5, "maximum": 20.25},
        ("-1.5", "-0.3", "0", "0.0", "1.999", "19.9999", "20", "20.2", "20.25", "20.250", "7.12"),
        ("-1.51", "20.251", "20.3", "21", "-2", "-0", "-0.0", "1e1"),
    ),
    "a range of numbers without its ends": Example(
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        ("0.5", "0.000000000000001", "0.99999999999999"),
        ("0", "0.0", "1", "1.0", "0.000000000000000", "0.9999999999999999"),
    ),
    "numbers from a bound": Example(
        {"type": "number", "minimum": 0.1}, ("0.1", "0.10", "1", "123456789.5"), ("0", "0.09", "-1")
    ),
    "multiples": Example(
        {"type": "integer", "multipleOf": 7}, ("0", "7", "-14", "700000007"), ("1", "8", "77777778")
    ),
    "multiples of tens": Example(
        {"type": "integer", "multipleOf": 250, "minimum": 1},
        ("250", "1000", "999750"),
        ("0", "100"),
    ),
    "multiples of a large step": Example(
        {"type": "integer", "multipleOf": 997, "minimum": 0, "maximum": 10000},
        ("0", "997", "9970"),
        ("998",),
    ),
    "a date": Example(
        {"type": "string", "format": "date"},
        ('"2024-02-29"', '"2000-02-29"', '"1999-12-31"'),
        ('"2023-02-29"', '"1900-02-29"', '"2023-04-31"', '"2023-13-01"'),
    ),
    "a time": Example(
        {"type": "string", "format": "date-time"},
        ('"2024-02-29T23:59:59Z"', '"2024-01-01T00:00:00.123+05:30"'),
        ('"2024-02-29T24:00:00Z"', '"2024-02-29 10:00:00Z"', '"2024-02-29T10:00:00"'),
    ),
    "an address": Example(
        {"anyOf": [{"type": "string", "format": f} for f in ("ipv4", "ipv6", "email", "uuid")]},
        ('"127.0.0.1"', '"::1"', '"1:2:3:4:5:6:7::"', '"a.b@example.org"'),
        ('"256.0.0.1"', '"1::2::3"', '"1:2:3:4:5:6:7:8::"', '"a@b"'),
    ),
    "a span of time": Example(
        {"type": "string", "format": "duration"}, ('"P1Y2M3DT4H5M6S"', '"PT1H"'), ('"P"', '"PT"')
    ),
    "names that nothing refers to": Example(
        _object(a={"id": "https://example.org/a", "type": "null"}), ('{"a": null}',), ('{"a": 1}',)
    ),
    "a format that nobody knows": Example(
        {"type": "string", "format": "sha1", "maxLength": 1}, ('""', '"x"'), ('"xy"',)
    ),
    "nothing but annotations": Example(
        {
            "title": "t",
            "default": 3,
            "examples": [1],
            "deprecated": True,
            "more": {"a": 1},
            "id": "a",
        },
        ("1", "[]"),
    ),
}

_SAME = {"type": "object", "properties": {"a": _INTEGER}}
UNSUPPORTED: dict[str, Any] = {
    "a keyword": {"not": {"type": "string"}},
    "a condition": {"if": True, "then": False},
    "a keyword somewhere": _object(a={"items": {"contains": True}}),
    "a format": {"format": "iri"},
    "a look-ahead": {"pattern": "a(?=b)"},
    "two patterns": {"allOf": [{"pattern": "a"}, {"pattern": "b"}]},
    "a length that a pattern has not": {"pattern": "^abc", "maxLength": 2},
    "a length beside repetitions within one another": {"pattern": "^(a+b)*$", "maxLength": 9},
    "more characters than a pattern has": {"pattern": "^a?b$", "minLength": 3},
    "a pattern beside a value": {"const": "a", "pattern": "a"},
    "what is all different": {"type": "array", "items": _TEXT, "uniqueItems": True},
    "two of three that are all different": {
        "items": {"enum": [1, 2, 3]},
        "minItems": 2,
        "uniqueItems": True,
    },
    "exactly one of the same": {"oneOf": [_SAME, _SAME]},
    "exactly one of two that may both be": {
        **_object(a=_INTEGER, b=_INTEGER),
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "exactly one of two numbers": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    "a reference elsewhere": {"$ref": "https://example.org/schema"},
    "a reference by anchor": {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}},
    "another name of a schema": _object(
        a={"$id": "https://example.org/a", "type": "null"}, b={"$ref": "#/properties/a"}
    ),
    "a name that a reference is below": {
        "$defs": {"a": {"$id": "https://example.org/a", "$defs": {"b": True}}},
        "$ref": "#/$defs/a/$defs/b",
    },
    "multiples of a fraction": {"type": "number", "multipleOf": 0.01},
    "multiples of a large number": {"type": "integer", "multipleOf": 997},
    "a number that is none everywhere": {"const": 9007199254740993},
    "names of a pattern and others": {**_SAME, "patternProperties": {"a": True}},
    "fewer names than may be": {**_object(a=True, b=True), "maxProperties": 1},
    "more names than must be": {**_object(a=True, b=True, c=True), "minProperties": 2},
    "nothing": False,
    "nothing of a type": {"allOf": [{"type": "string"}, {"type": "null"}]},
    "nothing in a range": {"type": "integer", "minimum": 4, "maximum": 3},
    "nothing among values": {"enum": []},
    "nothing between lengths": {"minLength": 3, "maxLength": 2, "type": "string"},
    "nothing that is needed": _object("a", a=False),
    "nothing that ends": _object("a", a={"$ref": "#"}),
    "itself": {"$ref": "#"},
    "itself and more": {"allOf": [{"type": "null"}, {"$ref": "#"}]},
    "itself and nothing between": {
        "anyOf": [{"$ref": "#"}, {"type": "string"}, {"$ref": "#/$defs/a"}],
        "$defs": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    },
}
WRONG: dict[str, Any] = {
    "no schema": 3,
    "a type that is none": {"type": "text"},
    "a list of types that is none": {"type": ["string", 3]},
    "a length that is none": {"type": "string", "minLength": -1},
    "a bound that is none": {"type": "number", "minimum": True},
    "an enum that is no list": {"enum": "a"},
    "names that are no list": {"required": True},
    "properties that are none": {"properties": []},
    "schemas that are no list": {"anyOf": {}},
    "a list of no schemas": {"allOf": []},
    "a reference that is none": {"$ref": 3},
    "a reference to nothing": {"$ref": "#/$defs/a"},
    "a pattern that is none": {"pattern": "[a"},
    "multiples of nothing": {"type": "integer", "multipleOf": 0},
    "half a character": {"const": "\ud800"},
}
