"""Schemas at random, and schemas that would come to too much."""

from __future__ import annotations

import contextlib
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from edgewise_runtime.errors import EdgewiseError, UnsupportedError
from edgewise_runtime.grammar.endings import endless_rule, left_recursive_rule
from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.schema import lower_schema
from tests.runtime.grammar.drawing import drawn
from tests.runtime.grammar.recognise import accepts
from tests.runtime.grammar.schema.bombs import BOMBS, LARGE
from tests.runtime.grammar.schema.random_schemas import random_schema


def lowered(schema: Any) -> Grammar | None:
    """A schema's grammar, or None where it is refused by name."""
    with contextlib.suppress(UnsupportedError):
        return lower_schema(schema)
    return None


@given(st.integers(0, 1 << 48))
def test_whatever_the_schema_its_texts_are_valid_under_it(seed: int) -> None:
    schema = random_schema(Random(seed))
    if (grammar := lowered(schema)) is None:
        return
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for again in range(6):
        text = drawn(grammar, grammar.rules[grammar.root], Random(again))
        validator.validate(json.loads(text))
        assert accepts(grammar, text)


@given(st.integers(0, 1 << 48))
def test_whatever_the_schema_its_rules_end_and_lead_on(seed: int) -> None:
    if (grammar := lowered(random_schema(Random(seed)))) is None:
        return
    assert endless_rule(grammar.rules) is None
    assert left_recursive_rule(grammar.rules) is None


@pytest.mark.quick(cases=5)
@pytest.mark.parametrize("schema", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused(schema: Any) -> None:
    with pytest.raises(EdgewiseError) as refused:
        lower_schema(schema)
    assert refused.value.code in ("input.schema", "unsupported.schema")
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("schema", LARGE.values(), ids=LARGE.keys())
def test_what_only_looks_like_a_bomb_is_lowered(schema: Any) -> None:
    grammar = lower_schema(schema)
    assert len(str(grammar)) < 4_000_000
    assert endless_rule(grammar.rules) is None
