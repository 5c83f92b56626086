"""The option response_format: what it may be, and how an answer is read back."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel, Field

from edgewise.response_format import (
    MAX_TEXT,
    ResponseFormat,
    grammar,
    regex,
    response_format_of,
)
from edgewise_runtime.errors import InputError, UnsupportedError

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


class Found(BaseModel):
    name: str
    score: float = Field(ge=0, le=1)


class Place(TypedDict):
    city: str


@dataclass
class Line:
    start: tuple[int, int]
    label: str | None = None


def wrapped(**changes: Any) -> dict[str, Any]:
    held = {"name": "answer", "schema": SCHEMA, **changes}
    return {"type": "json_schema", "json_schema": held}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("text", None),
        ({"type": "text"}, None),
        ("json", ResponseFormat("json_object")),
        ("json_object", ResponseFormat("json_object")),
        ({"type": "json_object"}, ResponseFormat("json_object")),
        (wrapped(), ResponseFormat("json_schema", SCHEMA, name="answer")),
        (
            wrapped(strict=True, description="x", name=None),
            ResponseFormat("json_schema", schema=SCHEMA),
        ),
        ({"type": "regex", "pattern": "a+"}, regex("a+")),
        ({"type": "grammar", "grammar": 'root ::= "a"'}, grammar('root ::= "a"')),
        ({"type": "grammar", "grammar": "x", "syntax": "lark"}, grammar("x", "lark")),
        (regex("[ab]"), ResponseFormat("regex", text="[ab]")),
    ],
    ids=lambda value: None if isinstance(value, ResponseFormat) else str(value)[:40],
)
def test_a_format_is_read(value: Any, expected: ResponseFormat | None) -> None:
    assert response_format_of(value) == expected


def read(value: Any) -> ResponseFormat:
    found = response_format_of(value)
    assert found is not None
    return found


def test_types_become_schemas_and_answers_their_values() -> None:
    model = read(Found)
    assert (model.kind, model.name) == ("json_schema", "Found")
    assert model.schema == Found.model_json_schema()
    assert model.parse('{"name": "x", "score": 0.5}') == Found(name="x", score=0.5)
    assert read(list[Found]).parse('[{"name": "x", "score": 1}]') == [Found(name="x", score=1)]
    assert read(Place).parse('{"city": "Bonn"}') == {"city": "Bonn"}
    assert read(Line).parse('{"start": [1, 2]}') == Line((1, 2))
    assert read(Line).parse('{"start": [1, 2], "label": null}') == Line((1, 2), None)
    assert read(int).parse(" 7\n") == 7


def test_other_answers_are_what_their_format_says() -> None:
    assert read("json").parse('{"a": [1]}') == {"a": [1]}
    assert read(wrapped()).parse('{"x": 1}') == {"x": 1}
    assert regex("a+").parse("aaa") == "aaa"


@pytest.mark.parametrize(
    ("value", "answer", "said"),
    [
        ("json", '{"a": ', "Expecting value"),
        ("json", "[]", "is no object"),
        ("json", '{"a": Infinity}', "Infinity is no JSON"),
        ("json", "[" * 200_000, "nested too deeply"),
        (wrapped(), "", "Expecting value"),
        (Found, '{"name": "x", "score": 2}', "less than or equal to 1"),
        (Line, '{"start": [1]}', "has not 2 items"),
        (Line, '{"start": [1, 2], "end": 3}', "Line has no 'end'"),
        (Place, "{}", "Place lacks 'city'"),
        (int, "1.5", "1.5 is no integer"),
        (int, "9" * 5000, "digits"),
    ],
)
def test_an_answer_that_is_none_is_refused(value: Any, answer: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read(value).parse(answer)
    assert caught.value.code == "input.answer"
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"type": 7},
        {"type": "json_object", "schema": {}},
        {"type": "json_schema"},
        {"type": "json_schema", "schema": SCHEMA},
        {"type": "json_schema", "json_schema": {}},
        wrapped(schema=None),
        wrapped(schema=True),
        wrapped(schema={"enum": [{1}]}),
        wrapped(schema={"enum": [0] * (1 << 17)}),
        wrapped(name=7),
        wrapped(strict="yes"),
        wrapped(other=1),
        {"type": "regex"},
        {"type": "regex", "pattern": ""},
        {"type": "regex", "pattern": "\ud800"},
        {"type": "regex", "pattern": "a" * (MAX_TEXT + 1)},
        {"type": "grammar"},
        {"type": "grammar", "grammar": 7},
        {"type": "grammar", "grammar": "x", "syntax": "peg"},
        {"type": "grammar", "grammar": "x", "syntax": ["lark"]},
    ],
    ids=lambda wrong: ascii(wrong)[:50],
)
def test_what_is_no_format_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError) as caught:
        response_format_of(wrong)
    assert caught.value.code == "input.response_format"
    assert caught.value.remedy


@pytest.mark.parametrize("kind", ["xml", "structural_tag", "choice"])
def test_formats_that_there_are_not_are_refused_by_name(kind: str) -> None:
    for value in (kind, {"type": kind}):
        with pytest.raises(UnsupportedError, match=f"of type '{kind}'") as caught:
            response_format_of(value)
        assert caught.value.code == "unsupported.response_format"


@pytest.mark.parametrize("wrong", [7, b"json", [SCHEMA], set[int], object])
def test_types_without_a_schema_are_refused_by_name(wrong: Any) -> None:
    with pytest.raises(UnsupportedError, match="type hint") as caught:
        response_format_of(wrong)
    assert caught.value.code == "unsupported.type_hint"


def test_a_format_does_not_change() -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["x"]}
    found = read(wrapped(schema=schema))
    schema["required"].append("y")
    assert found.schema == {"type": "object", "required": ["x"]}
    with pytest.raises(FrozenInstanceError):
        found.text = ""  # type: ignore[misc]
