"""What Python answers under schemas, for a browser to say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgewise import Engine

PROGRAM = "webgpu-f32-serial"
"""The program that says the same on every GPU: it has no order of threads."""
TOKENS = 96
QUESTIONS = ("What is a page?", "Tell me about Zürich.", "Who are you?", "Count from one to ten.")


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string", "maxLength": 16}
SCHEMAS: tuple[dict[str, Any], ...] = (
    _object(name=TEXT),
    _object(name=TEXT, age={"type": "integer", "minimum": 0, "maximum": 150}),
    _object(city={"enum": ["Zürich", "Łódź", "東京", "🏔"]}),
    _object(tags={"type": "array", "items": TEXT, "minItems": 2, "maxItems": 3}),
    _object(yes={"type": "boolean"}, why=TEXT),
    _object(price={"type": "number", "minimum": 1.5, "maximum": 2.75}),
    _object(inner=_object(deeper=_object(deepest={"const": "here"}))),
    _object(answer={"anyOf": [{"type": "null"}, {"type": "integer", "maximum": 9}]}),
    _object(date={"type": "string", "format": "date"}),
    _object(code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}),
    {"type": "array", "items": {"type": "integer", "multipleOf": 5}, "maxItems": 4},
    {"enum": ["a page", "a block", {"of": ["tokens", 16]}, None, 1.5]},
    {"type": "array", "prefixItems": [TEXT, {"type": "boolean"}], "items": False, "minItems": 2},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": _object(
                leaf=TEXT, below={"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}
            )
        },
    },
    _object(**{'a "quoted"\nkey': {"type": "integer", "minimum": 1, "maximum": 3}}),
    {
        "type": "object",
        "properties": {"must": {"type": "boolean"}, "may": TEXT},
        "required": ["must"],
        "additionalProperties": False,
    },
    {
        "oneOf": [
            _object(kind={"const": "circle"}, r={"type": "integer"}),
            _object(kind={"const": "dot"}),
        ]
    },
    {"type": "integer", "exclusiveMinimum": -100, "exclusiveMaximum": -10},
    {"type": "string", "minLength": 3, "maxLength": 24},
    _object(id={"type": "string", "format": "uuid"}),
)


def write_constrained(bundle: Path, out: Path) -> None:
    """Write a greedy answer under each schema to ``out``, unless they are there."""
    if out.is_file():
        return
    cases: list[dict[str, Any]] = []
    with Engine(bundle, device="wgpu", program=PROGRAM) as engine:
        for at, schema in enumerate(SCHEMAS):
            question = QUESTIONS[at % len(QUESTIONS)]
            answer = engine.chat(
                [{"role": "user", "content": question}],
                response_format={"type": "json_schema", "json_schema": {"schema": schema}},
                temperature=0.0,
                max_tokens=TOKENS,
            )
            told = {"text": answer.text, "tokens": list(answer.token_ids)}
            cases.append(
                {"question": question, "schema": schema, "finish": answer.finish_reason, **told}
            )
    out.write_text(json.dumps({"program": PROGRAM, "most": TOKENS, "cases": cases}))
