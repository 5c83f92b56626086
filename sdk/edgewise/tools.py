"""Tools: functions, types and JSON schemas as what chat templates show of them.

A function is described as transformers' `get_json_schema` describes it. Nothing here calls a tool.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, get_type_hints

from edgewise.docstrings import Documented, choices, read_docstring
from edgewise.plain import plain_json
from edgewise.shapes import (
    CLASSES,
    MismatchError,
    Schema,
    Shape,
    Shapes,
    is_model,
    read_fields,
    shape_of,
)
from edgewise_runtime.errors import EdgewiseError, InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.json_text import read_json

ToolLike: TypeAlias = "Mapping[str, Any] | Callable[..., Any] | type | Tool"
"""A tool as a caller gives it: a JSON schema, a function with type hints, a class with fields (a
pydantic model, a TypedDict, a dataclass), or what was made of one of these."""

MAX_TOOLS = 256
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
"""What a tool may be named: what no format of calls has to escape."""
_NO_ARGUMENTS: Schema = {"type": "object", "properties": {}}
_CODE = "input.tools"


@dataclass(frozen=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: what it is called by.
        described: its JSON schema as templates show it: ``{"type": "function", "function": {...}}``
            with a name, perhaps a description, and parameters.
        parameters: the JSON schema of its arguments, which are an object.
        read: makes such an object what the tool takes: arguments by name of a function, an instance
            of a class, the object itself of a schema. Raises `MismatchError`.
        function: the Python function that it is, if it is one.
    """

    name: str
    described: Mapping[str, Any]
    parameters: Mapping[str, Any]
    read: Callable[[Any], Any] = field(compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False)

    def arguments(self, given: str | Mapping[str, Any]) -> Any:
        """Return the arguments of a call, JSON text or an object, as the tool takes them.

        Raises InputError ``input.arguments`` for what the tool does not take.
        """
        try:
            return self.read(read_json(given) if isinstance(given, str) else given)
        except (ValueError, MismatchError) as error:
            raise InputError(
                f"The arguments {shorten(given)} are none of {self.name}: {error}.",
                remedy="Tell the model so in the tool's result.",
                code="input.arguments",
            ) from error


def tools_of(tools: Iterable[ToolLike] | None) -> tuple[Tool, ...] | None:
    """Return checked tools; None where nobody gave any.

    Raises:
        InputError: ``input.tools`` for what is no tool, or too many.
        UnsupportedError: ``unsupported.tool``, ``unsupported.type_hint``.
    """
    if tools is None:
        return None
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes | Mapping):
        raise _wrong(f"{shorten(tools)} is no list of tools.")
    found: dict[str, Tool] = {}
    for given in tools:
        if len(found) == MAX_TOOLS:
            raise _wrong(f"There are more than {MAX_TOOLS} tools.", "Pass those that are needed.")
        tool = tool_of(given)
        if tool.name in found:
            raise _wrong(f"Two tools are named {tool.name!r}.", "Rename one of them.")
        found[tool.name] = tool
    return tuple(found.values())


def described(tools: Iterable[ToolLike] | None) -> list[Mapping[str, Any]] | None:
    """Return what templates show of tools. Raises what `tools_of` does."""
    found = tools_of(tools)
    return None if found is None else [tool.described for tool in found]


def tool_of(tool: Any) -> Tool:
    """Return one checked tool. Raises what `tools_of` does."""
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, Mapping):
        return _of_schema(tool)
    if inspect.isfunction(tool) or inspect.ismethod(tool):
        return _of_function(tool)
    if isinstance(tool, type) and any(is_one(tool) for is_one, _ in CLASSES):
        return _of_class(tool)
    raise _wrong(
        f"{shorten(tool)} is no tool.",
        "Pass a function with type hints and a docstring, a pydantic model, a TypedDict, a "
        'dataclass, or a JSON schema such as {"type": "function", "function": {"name": ...}}.',
    )


def _of_schema(given: Mapping[str, Any]) -> Tool:
    tool = plain_json(given, "A tool", code=_CODE)
    # Templates read the form of OpenAI's API; some callers pass what is inside it.
    if "type" not in tool and "function" not in tool:
        tool = {"type": "function", "function": tool}
    if tool.get("type", "function") != "function":
        raise UnsupportedError(
            f"A tool is of type {shorten(tool['type'])}; only functions are known.",
            remedy='Pass {"type": "function", "function": {"name": ..., "parameters": ...}}.',
            code="unsupported.tool",
        )
    function = tool.get("function")
    if not isinstance(function, dict):
        raise _wrong(f"A tool's function is {shorten(function)}; it must be an object.")
    name = _named(function.get("name"))
    if not isinstance(function.get("description", ""), str | None):
        raise _wrong(f"The description of {name} is {shorten(function['description'])}, no text.")
    parameters = function.get("parameters")
    if parameters is None:
        parameters = _NO_ARGUMENTS
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise _wrong(
            f"The parameters of {name} are {shorten(parameters)}; they must be the JSON schema of "
            "an object."
        )
    return Tool(name, {"type": "function", **tool}, parameters, _object)


def _of_function(function: Callable[..., Any]) -> Tool:
    name = _named(getattr(function, "__name__", None))
    said = read_docstring(inspect.getdoc(function) or "")
    if not said.summary:
        raise _wrong(
            f"The function {name} has no docstring: a model would not know what it does.",
            "Write one, with a section `Args:` for what its arguments mean.",
        )
    hints = _hints_of(function, name)
    required = _required(function, name, hints)
    shown, exact = _arguments(hints, exact=False), _arguments(hints, exact=True)
    function_schema: Schema = {"name": name, "description": said.summary}
    function_schema["parameters"] = _parameters(shown, required, said, name)
    if (returned := _returned(function, said)) is not None:
        function_schema["return"] = returned
    parameters = _parameters(exact, required, said, name)
    read = partial(read_fields, name, exact.shapes, frozenset(required))
    return Tool(name, {"type": "function", "function": function_schema}, parameters, read, function)


@dataclass(frozen=True)
class _Arguments:
    """The shapes of a function's arguments, and the definitions that their schemas share."""

    shapes: Mapping[str, Shape]
    shared: Shapes


def _arguments(hints: Mapping[str, Any], *, exact: bool) -> _Arguments:
    shared = Shapes(exact)
    return _Arguments({name: shared.of(hint) for name, hint in hints.items()}, shared)


def _parameters(
    arguments: _Arguments, required: Sequence[str], said: Documented, function: str
) -> Schema:
    """The JSON schema of a function's arguments, with what its docstring says of them."""
    properties = {
        name: _with_words(shape.schema, said.arguments.get(name), f"{function}'s {name}")
        for name, shape in arguments.shapes.items()
    }
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if arguments.shared.exact:
        schema["additionalProperties"] = False
    return arguments.shared.closed(schema)


def _with_words(schema: Schema, words: str | None, whose: str) -> Schema:
    if words is None:
        return schema
    try:
        text, listed = choices(words)
    except ValueError as error:
        raise _wrong(
            f"The choices in {shorten(words)} of {whose} are no JSON: {error}.",
            'Write them at the end, such as (choices: ["tea", "coffee"]).',
        ) from error
    return {**schema, **({} if listed is None else {"enum": listed}), "description": text}


def _hints_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """The type hints of a function's arguments, without the one that a method is bound to."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError) as error:
        raise _wrong(f"The type hints of {name} cannot be read: {error}.") from error
    hints.pop("return", None)
    return hints


def _required(function: Callable[..., Any], name: str, hints: Mapping[str, Any]) -> list[str]:
    """The names of arguments without a default, in their order."""
    required = []
    for number, (argument, one) in enumerate(inspect.signature(function).parameters.items()):
        if number == 0 and argument in ("self", "cls") and argument not in hints:
            continue
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            raise UnsupportedError(
                f"{name} takes {shorten(str(one))}, which has no name in a call.",
                remedy="Pass a function whose arguments all can be given by name.",
                code="unsupported.tool",
            )
        if argument not in hints:
            raise _wrong(f"The argument {argument} of {name} has no type hint.")
        if one.default is one.empty:
            required.append(argument)
    return required


def _returned(function: Callable[..., Any], said: Documented) -> Schema | None:
    """The schema of what a function returns; None where it has no hint, or one without a schema,
    for no model writes it."""
    hints = get_type_hints(function)
    if "return" not in hints:
        return None
    try:
        schema = shape_of(hints["return"], exact=False).schema
    except EdgewiseError:
        return None
    return schema if said.returns is None else {**schema, "description": said.returns}


def _of_class(kind: type) -> Tool:
    name = _named(kind.__name__)
    shape = shape_of(kind)
    written = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    schema = dict(shape.schema)
    # Where a dataclass has none, Python writes its signature.
    automatic = not is_model(kind) and written.startswith(f"{name}(")
    description = schema.pop("description", "" if automatic else written)
    function: Schema = {"name": name, "description": description} if description else {"name": name}
    function["parameters"] = schema
    return Tool(name, {"type": "function", "function": function}, schema, shape.read)


def _object(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise MismatchError(f"{shorten(value)} is no object")
    return value


def _named(name: Any) -> str:
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    raise _wrong(
        f"A tool is named {shorten(name)}.",
        "Name it with up to 128 letters (A to Z), digits and _ - . / signs.",
    )


def _wrong(message: str, remedy: str = "") -> InputError:
    return InputError(message, remedy=remedy, code=_CODE)
