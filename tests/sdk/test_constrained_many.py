"""Many answers of the demo model at a temperature of 1: each is valid under its schema, or is the
beginning of what would be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from edgewise import Completion, Engine
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.schema import lower_schema
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.text.json_text import read_json

QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "Tell me about a fox."}]
MOST = 250
"""Tokens of an answer: more than any text of a bounded schema has."""
FINISHED = 0.95
"""Of answers of bounded schemas at least so many end by themselves."""


def objects(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an object that has all of these, and no others."""
    required = list(properties)
    shape = {"type": "object", "properties": properties, "required": required}
    return {**shape, "additionalProperties": False, **more}


WORD: dict[str, Any] = {"type": "string", "maxLength": 12}
BOUNDED: dict[str, dict[str, Any]] = {
    "nested": objects(
        {
            "who": objects(
                {
                    "name": WORD,
                    "home": objects(
                        {"town": WORD, "zip": {"type": "integer", "minimum": 1000, "maximum": 9999}}
                    ),
                }
            ),
            "friends": {"type": "array", "maxItems": 2, "items": objects({"name": WORD})},
        }
    ),
    "unicode": objects(
        {
            "größe": {"enum": ["groß", "klein", "大きい", "🦊🦊"]},
            "名前": {"type": "string", "minLength": 1, "maxLength": 6},
            "ключ": {"type": "string", "pattern": "^[а-я]{2,5}$"},
        }
    ),
    "enum": {"enum": ["fox", 'a "quote"', 3, 2.5, None, True, ["a", {"b": []}], {"c": "\n"}]},
    "bounded array": {
        "type": "array",
        "minItems": 2,
        "maxItems": 5,
        "items": {"anyOf": [WORD, {"type": "boolean"}, {"type": "null"}]},
    },
    "number range": objects(
        {
            "age": {"type": "integer", "minimum": -17, "maximum": 120},
            "big": {"type": "integer", "exclusiveMinimum": 10**9, "maximum": 10**12},
            "share": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100},
        }
    ),
    "optional": {
        "type": "object",
        "properties": {"a": WORD, "b": {"const": 1}, "c": {"type": "boolean"}},
        "additionalProperties": False,
    },
    "tuple": {
        "type": "array",
        "prefixItems": [WORD, {"type": "integer", "minimum": 0, "maximum": 9}],
        "items": False,
        "minItems": 2,
    },
}
RECURSIVE: dict[str, dict[str, Any]] = {
    "tree": {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": objects(
                {
                    "name": WORD,
                    "below": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                }
            )
        },
    },
    "list": {
        "$ref": "#/$defs/list",
        "$defs": {
            "list": objects(
                {
                    "head": {"type": "number"},
                    "tail": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]},
                }
            )
        },
    },
    "text": objects({"text": {"type": "string"}, "tags": {"type": "array", "items": WORD}}),
}
SCHEMAS = {**BOUNDED, **RECURSIVE}
SEEDS = [range(10), pytest.param(range(10, 100), marks=pytest.mark.full)]


@pytest.fixture(scope="module")
def demo(demo_bundle: Path) -> Iterator[Engine]:
    with Engine(demo_bundle) as engine:
        yield engine


def answers(engine: Engine, schema: dict[str, Any], seeds: range) -> list[Completion]:
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    running = [
        engine.submit_chat(
            QUESTION, response_format=wanted, temperature=1.0, seed=seed, max_tokens=MOST
        )
        for seed in seeds
    ]
    return [generation.result() for generation in running]


def is_beginning(schema: dict[str, Any], text: str) -> bool:
    """Whether a text of the schema begins so."""
    matcher = Matcher(lower_schema(schema), Vocabulary([bytes([byte]) for byte in range(256)]))
    return matcher.advance_bytes(matcher.start, text.encode()) is not None


@pytest.mark.quick(cases=3)
@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "all"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_answer_is_valid_or_begins_so(demo: Engine, name: str, seeds: range) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    found = answers(demo, schema, seeds)
    for done in found:
        if done.finish_reason == "stop":
            assert list(validator.iter_errors(read_json(done.text))) == []
            assert done.parsed == read_json(done.text)
        else:
            assert done.finish_reason == "length"
            assert is_beginning(schema, done.text)
    ended = sum(done.finish_reason == "stop" for done in found)
    assert name not in BOUNDED or ended >= FINISHED * len(found)
    assert len({done.text for done in found}) > 1


def test_what_is_no_beginning_is_told() -> None:
    assert is_beginning(BOUNDED["number range"], '{"age": -1')
    assert not is_beginning(BOUNDED["number range"], '{"age": -18')
