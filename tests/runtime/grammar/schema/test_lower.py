"""Every text of a schema's grammar is JSON and valid under the schema."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.nodes import Grammar, Literal, Node, Sequence
from edgewise_runtime.grammar.schema import lower_json_object, lower_schema, schema_rules
from tests.runtime.grammar.drawing import drawn
from tests.runtime.grammar.recognise import accepts
from tests.runtime.grammar.schemas import EXAMPLES, UNSUPPORTED, WRONG, Example


def code_of(schema: Any) -> str:
    with pytest.raises(EdgewiseError) as refused:
        lower_schema(schema)
    assert len(str(refused.value)) < 500
    return refused.value.code


def drawn_texts(grammar: Grammar, count: int = 20) -> list[str]:
    root = grammar.rules[grammar.root]
    return [drawn(grammar, root, Random(seed)) for seed in range(count)]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_schema_takes_the_texts_that_it_should(example: Example) -> None:
    grammar = lower_schema(example.schema)
    for text in example.taken:
        assert accepts(grammar, text), text
    for text in example.refused:
        assert not accepts(grammar, text), text


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_what_a_schema_writes_is_valid_under_it(example: Example) -> None:
    draft = Draft7Validator if "additionalItems" in str(example.schema) else Draft202012Validator
    validator = draft(example.schema, format_checker=draft.FORMAT_CHECKER)
    grammar = lower_schema(example.schema)
    for text in (*drawn_texts(grammar), *example.taken):
        validator.validate(json.loads(text))


@pytest.mark.parametrize("schema", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_refused_by_name_is(schema: Any) -> None:
    assert code_of(schema) == "unsupported.schema"


@pytest.mark.parametrize("schema", WRONG.values(), ids=WRONG.keys())
def test_no_schema_is(schema: Any) -> None:
    assert code_of(schema) == "input.schema"


def test_what_is_refused_says_where_it_is() -> None:
    schema = {"properties": {"a/b": {"items": {"contains": True}}}, "type": "object"}
    with pytest.raises(EdgewiseError, match=r"#/properties/a~1b/items: the keyword 'contains'"):
        lower_schema(schema)


def test_any_object_is_an_object() -> None:
    grammar = lower_json_object()
    assert accepts(grammar, '{"a": [1, {"b": null}]}')
    assert not accepts(grammar, "[]")
    for text in drawn_texts(grammar):
        assert isinstance(json.loads(text), dict)


def test_schemas_go_into_a_larger_grammar_under_names_of_their_own() -> None:
    rules: dict[str, Node] = {}
    first = schema_rules(EXAMPLES["a tree"].schema, rules, "one_")
    second = schema_rules(EXAMPLES["a list that holds itself"].schema, rules, "one_")
    third = schema_rules({"type": "object"}, rules, "two_")
    root = Sequence((Literal("<"), first, second, third, Literal(">")))
    assert all(name.startswith(("one_", "two_")) for name in rules)
    text = '<{"name": "a"}{"value": 1, "next": {"value": 2}}{}>'
    assert accepts(Grammar({"root": root, **rules}, "root"), text)
