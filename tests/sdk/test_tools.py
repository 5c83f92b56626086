"""Functions, classes and schemas become tools, described as transformers describes them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field

from edgewise import Engine
from edgewise.tools import MAX_TOOLS, described, tool_of, tools_of
from edgewise_runtime.errors import EdgewiseError, InputError, UnsupportedError
from tests.sdk.tool_functions import FUNCTIONS, Counter, Mixed, Unit, everything, forecast

GOLDENS = Path(__file__).parents[1] / "runtime/text/goldens/tools.json"
SCHEMAS: dict[str, Any] = json.loads(GOLDENS.read_text("ascii"))["schemas"]


class Where(TypedDict):
    """A place."""

    city: str
    country: NotRequired[str]


@dataclass
class Point:
    x: int
    y: float = 0.5
    inside: list[Point] = field(default_factory=list)


class Trip(BaseModel):
    """Book a trip."""

    to: str = Field(description="Where to", max_length=20)
    days: int = Field(ge=1, le=30)
    stops: list[Trip] = []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_described_as_transformers_describes_it(name: str) -> None:
    # As texts: templates write what comes first first.
    assert json.dumps(tool_of(FUNCTIONS[name]).described) == json.dumps(SCHEMAS[name])


def test_what_a_call_is_held_to_says_more_than_what_is_shown() -> None:
    parameters = tool_of(everything).parameters
    shown = tool_of(everything).described["function"]["parameters"]
    assert shown["properties"]["b"] == {"type": "string", "nullable": True, "description": "B"}
    assert parameters["properties"]["b"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "B",
    }
    assert parameters["properties"]["f"].items() >= {"minItems": 2, "maxItems": 2}.items()
    assert parameters["additionalProperties"] is False
    assert parameters["required"] == shown["required"]


GIVEN: dict[str, Any] = {
    "a": [1, 2.0],
    "b": None,
    "c": 1.5,
    "d": "x",
    "e": {"k": [1]},
    "f": [1, "two"],
    "g": {"any": []},
    "h": [1],
    "i": {"k": 1},
    "l": {"n": 1},
    "m": "fahrenheit",
    "o": "x",
}


def test_arguments_are_read_as_the_hints_say() -> None:
    read = tool_of(everything).arguments(json.dumps(GIVEN))
    assert (read["m"], read["o"]) == (Unit.FAHRENHEIT, Mixed.TEXT)
    assert (read["f"], read["a"], read["e"]) == ((1, "two"), [1, 2], {"k": [1.0]})
    assert everything(**read) is None
    assert forecast(**tool_of(forecast).arguments({"city": "Bonn"})) == "Bonn 3 False"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"a": 1}, "1 is no array"),
        ({"a": [True]}, "True is no integer"),
        ({"a": [1.5]}, "1.5 is no integer"),
        ({"b": 3}, "3 is none of"),
        ({"d": "z"}, "'z' is none of"),
        ({"f": [1]}, "has not 2 items"),
        ({"m": "kelvin"}, "'kelvin' is none of"),
        ({"n": True}, "True is none of"),
        ({"zz": 1}, "has no 'zz'"),
        ({"a": ...}, "lacks 'a'"),
    ],
)
def test_arguments_that_are_none_are_refused(changed: dict[str, Any], said: str) -> None:
    given = {**GIVEN, **changed}
    kept = {key: value for key, value in given.items() if value is not ...}
    with pytest.raises(InputError, match=said) as caught:
        tool_of(everything).arguments(kept)
    assert caught.value.code == "input.arguments"


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"city": NaN}', "[" * 200_000])
def test_arguments_that_are_no_object_are_refused(text: str) -> None:
    for tool in (forecast, {"name": "f"}):
        with pytest.raises(InputError, match="are none of") as caught:
            tool_of(tool).arguments(text)
        assert caught.value.code == "input.arguments"


def test_a_model_is_a_tool() -> None:
    tool = tool_of(Trip)
    assert tool.described["function"].keys() == {"name", "description", "parameters"}
    assert (tool.name, tool.described["function"]["description"]) == ("Trip", "Book a trip.")
    assert tool.parameters["$defs"]["Trip"]["properties"]["days"]["maximum"] == 30
    assert tool.arguments('{"to": "Bonn", "days": 2}') == Trip(to="Bonn", days=2)
    with pytest.raises(InputError, match="days") as caught:
        tool.arguments({"to": "Bonn", "days": 99})
    assert caught.value.code == "input.arguments"


def test_a_typed_dict_is_a_tool() -> None:
    assert tool_of(Where).described["function"] == {
        "name": "Where",
        "description": "A place.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    assert tool_of(Where).arguments({"city": "Bonn"}) == {"city": "Bonn"}


def test_a_dataclass_is_a_tool_even_where_it_holds_itself() -> None:
    tool = tool_of(Point)
    assert tool.described["function"].keys() == {"name", "parameters"}
    assert tool.parameters["$ref"] == "#/$defs/Point"
    assert tool.parameters["$defs"]["Point"]["properties"]["inside"]["items"] == {
        "$ref": "#/$defs/Point"
    }
    read = tool.arguments({"x": 1, "inside": [{"x": 2, "y": 3}]})
    assert read == Point(1, inside=[Point(2, 3.0)])


def test_a_function_may_take_classes() -> None:
    def go(to: Where, trips: list[Trip], at: Annotated[Point | None, "where"] = None) -> None:
        """Go."""

    tool = tool_of(go)
    assert set(tool.parameters["$defs"]) == {"Trip", "Point"}
    read = tool.arguments({"to": {"city": "x"}, "trips": [{"to": "y", "days": 1}], "at": {"x": 1}})
    assert read == {"to": {"city": "x"}, "trips": [Trip(to="y", days=1)], "at": Point(1)}


def test_a_schema_is_shown_as_it_is() -> None:
    function = {"name": "f", "strict": True, "parameters": {"type": "object", "title": "T"}}
    whole = {"type": "function", "function": function}
    for given in (whole, function, {"function": function}):
        assert tool_of(given).described == whole
    assert tool_of({"name": "f"}).parameters == {"type": "object", "properties": {}}
    read = tool_of(whole).arguments('{"x": 1}')
    assert read == {"x": 1}


def test_nothing_is_not_no_tools() -> None:
    assert (tools_of(None), described(None)) == (None, None)
    assert (tools_of([]), described(iter([]))) == ((), [])
    assert tools_of(tools_of([forecast])) == tools_of([forecast])


def without_docstring(x: int) -> None: ...


def without_hint(x) -> None:  # type: ignore[no-untyped-def]
    """Lacks a hint."""


def of_no_such_type(x: "Missing") -> None:  # type: ignore[name-defined] # noqa: F821, UP037
    """Has a hint of nothing."""


def with_wrong_choices(x: str) -> None:
    """Has choices.

    Args:
        x: One (choices: ["a", b])
    """


WRONG: dict[str, tuple[Any, str]] = {
    "text": ("weather", "is no list of tools"),
    "schema alone": ({"name": "f"}, "is no list of tools"),
    "number": ([7], "7 is no tool"),
    "partial": ([functools.partial(forecast, "x")], "is no tool"),
    "builtin": ([print], "is no tool"),
    "plain class": ([Counter], "is no tool"),
    "no name": ([{"description": "x"}], "named None"),
    "odd name": ([{"name": "a b"}], "named 'a b'"),
    "long name": ([{"name": "a" * 129}], "named 'aaa"),
    "lambda": ([lambda: None], "named '<lambda>'"),
    "no function": ([{"type": "function"}], "function is None"),
    "description": ([{"name": "f", "description": 7}], "is 7, no text"),
    "parameters": ([{"name": "f", "parameters": []}], "parameters of f are"),
    "array": ([{"name": "f", "parameters": {"type": "array"}}], "parameters of f are"),
    "no JSON": ([{"name": "f", "parameters": {"type": "object", "x": {1}}}], "which is no JSON"),
    "no key": ([{"name": "f", "parameters": {1: 2}}], "1 for a key"),
    "not finite": ([{"name": "f", "x": float("inf")}], "which is no JSON"),
    "half a character": ([{"name": "f", "x": "\ud800"}], "half a character"),
    "twice": ([forecast, {"name": "forecast"}], "Two tools are named 'forecast'"),
    "docstring": ([without_docstring], "has no docstring"),
    "hint": ([without_hint], "The argument x of without_hint has no type hint"),
    "unknown hint": ([of_no_such_type], "cannot be read"),
    "choices": ([with_wrong_choices], "are no JSON"),
    "many": ([{"name": f"f{i}"} for i in range(MAX_TOOLS + 1)], "more than 256 tools"),
}


@pytest.mark.parametrize("why", WRONG)
def test_what_is_no_tool_is_refused(why: str) -> None:
    wrong, said = WRONG[why]
    with pytest.raises(InputError, match=said) as caught:
        tools_of(wrong)
    assert caught.value.code == "input.tools"


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "much", [deep(10_000), [0] * (1 << 17), "x" * (1 << 21)], ids=["deep", "many", "long"]
)
def test_a_schema_that_is_too_large_is_refused(much: Any) -> None:
    with pytest.raises(InputError, match="has more than") as caught:
        tool_of({"name": "f", "parameters": {"type": "object", "enum": much}})
    assert caught.value.code == "input.tools"


def of_arguments(*arguments: int) -> None:
    """Take any number."""


def of_keywords(**arguments: int) -> None:
    """Take any names."""


def of_positions(x: int, /) -> None:
    """Take one without a name."""


@pytest.mark.parametrize("function", [of_arguments, of_keywords, of_positions])
def test_arguments_without_names_are_refused_by_name(function: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match=f"^{function.__name__} takes") as caught:
        tool_of(function)
    assert caught.value.code == "unsupported.tool"


def test_what_is_no_function_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="'code_interpreter'") as caught:
        tool_of({"type": "code_interpreter"})
    assert caught.value.code == "unsupported.tool"


@pytest.mark.parametrize(
    "hint",
    [bytes, complex, set[int], dict[int, str], tuple[int], tuple[int, ...], object, "x", [int]],
    ids=repr,
)
def test_hints_that_have_no_schema_are_refused_by_name(hint: Any) -> None:
    def function(x: Any) -> None:
        """Take it."""

    function.__annotations__["x"] = hint
    with pytest.raises(EdgewiseError) as caught:
        tool_of(function)
    assert caught.value.code in ("unsupported.type_hint", "input.tools")


def test_two_types_of_one_name_are_refused_by_name() -> None:
    def named(kind: Any) -> type:
        @dataclass
        class Point:
            at: Any
            inside: Any

        Point.__annotations__ |= {"at": kind, "inside": list[Point]}
        return Point

    def function(x: Any, y: Any) -> None:
        """Take them."""

    function.__annotations__ |= {"x": named(int), "y": named(str)}
    with pytest.raises(UnsupportedError, match="Two different types are named 'Point'"):
        tool_of(function)


def test_an_engine_takes_functions_for_tools(engine: Engine) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    asked: dict[str, Any] = {"max_tokens": 4, "temperature": 0}
    told = engine.chat(messages, tools=[forecast, Trip], **asked)
    assert (
        told.token_ids
        == engine.chat(messages, tools=described([forecast, Trip]), **asked).token_ids
    )
    with pytest.raises(InputError, match="is no tool"):
        engine.chat(messages, tools=[7], **asked)  # type: ignore[call-overload]
