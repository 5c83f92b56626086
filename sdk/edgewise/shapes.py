"""Type hints as JSON schemas, and JSON values read back as what the hints say.

The schema of a hint is either the one that transformers' `get_json_schema` writes, for templates to
show to a model, or an exact one, for a grammar to follow. They differ where the former says less
than JSON Schema can: ``nullable`` for None, and tuples of any length.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import (
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten

Schema = dict[str, Any]
NOTHING = type(None)
MAX_HINTS = 4096
"""Types that one hint may be made of, those inside it counted."""


class MismatchError(Exception):
    """A JSON value is not what a hint says; its text says which, and where."""


@dataclass(frozen=True)
class Shape:
    """What JSON a type hint stands for.

    Attributes:
        schema: the JSON schema of its values.
        read: makes a JSON value what the hint says, such as an instance of a dataclass. Raises
            MismatchError.
    """

    schema: Schema
    read: Callable[[Any], Any]


def shape_of(hint: Any, *, exact: bool = True) -> Shape:
    """Return the shape of a type hint: of JSON's own types, unions, Literal, enums, lists, tuples
    and dicts of them, TypedDicts, dataclasses and pydantic models.

    Args:
        exact: a schema that says all there is; otherwise as transformers writes it.

    Raises:
        UnsupportedError: ``unsupported.type_hint``, which names the hint.
    """
    shapes = Shapes(exact)
    shape = shapes.of(hint)
    return Shape(shapes.closed(shape.schema), shape.read)


@dataclass
class Shapes:
    """Shapes whose schemas share their definitions.

    Attributes:
        exact: as of `shape_of`.
        definitions: what references in schemas lead to, by name.
    """

    exact: bool
    definitions: dict[str, Schema] = field(default_factory=dict)
    # Classes whose fields are being read, and whether they turned out to hold themselves.
    _open: dict[type, bool] = field(default_factory=dict)
    _readers: dict[type, Callable[[Any], Any]] = field(default_factory=dict)
    _hints: int = 0

    def of(self, hint: Any) -> Shape:
        """Return the shape of a hint. Raises what `shape_of` does."""
        self._hints += 1
        if self._hints > MAX_HINTS:
            raise _unsupported(hint, f"it is made of more than {MAX_HINTS:,} types")
        origin = get_origin(hint)
        if origin is not None:
            make = _GENERIC.get(origin)
            if make is None or not get_args(hint):
                raise _unsupported(hint)
            return make(self, hint)
        if isinstance(hint, Hashable) and hint in _PLAIN:
            return _PLAIN[hint]
        if isinstance(hint, type):
            for is_one, of_class in _CLASSES:
                if is_one(hint):
                    return of_class(self, hint)
        raise _unsupported(hint)

    def closed(self, schema: Schema) -> Schema:
        """The schema together with the definitions."""
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def define(self, name: str, schema: Schema) -> Schema:
        """Keep a definition, and return a reference to it.

        Raises UnsupportedError ``unsupported.type_hint`` for another one of the name.
        """
        if self.definitions.setdefault(name, schema) != schema:
            raise UnsupportedError(
                f"Two different types are named {shorten(name)}.",
                remedy="Give one of them another name.",
                code="unsupported.type_hint",
            )
        return {"$ref": f"#/$defs/{name}"}

    def object_of(
        self, kind: type, hints: Mapping[str, Any], required: list[str], make: Callable[..., Any]
    ) -> Shape:
        """The shape of a class with fields, which may hold itself.

        Args:
            make: takes the fields' values by name.
        """
        if kind in self._open:
            self._open[kind] = True
            return Shape(
                {"$ref": f"#/$defs/{kind.__name__}"}, lambda value: self._readers[kind](value)
            )
        self._open[kind] = False
        shapes = {name: self.of(hint) for name, hint in hints.items()}
        schema: Schema = {
            "type": "object",
            "properties": {name: shape.schema for name, shape in shapes.items()},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }
        read = partial(_read_object, kind.__name__, shapes, frozenset(required), make)
        self._readers[kind] = read
        holds_itself = self._open.pop(kind)
        return Shape(self.define(kind.__name__, schema) if holds_itself else schema, read)


def read_fields(
    name: str, shapes: Mapping[str, Shape], required: frozenset[str], value: Any
) -> dict[str, Any]:
    """Return an object's values, each as its shape says. Raises MismatchError."""
    if not isinstance(value, Mapping):
        raise MismatchError(f"{shorten(value)} is no object ({name})")
    for key in value:
        if key not in shapes:
            raise MismatchError(f"{name} has no {shorten(key)}")
    for key in sorted(required - value.keys()):
        raise MismatchError(f"{name} lacks {shorten(key)}")
    return {key: shapes[key].read(item) for key, item in value.items()}


def _read_object(
    name: str,
    shapes: Mapping[str, Shape],
    required: frozenset[str],
    make: Callable[..., Any],
    value: Any,
) -> Any:
    return make(**read_fields(name, shapes, required, value))


def _unsupported(hint: Any, why: str = "it has no JSON schema here") -> UnsupportedError:
    return UnsupportedError(
        f"The type hint {shorten(hint)} cannot be used: {why}.",
        remedy="Use int, float, str, bool, None, Literal, enums, lists, tuples, dicts and unions "
        "of these, TypedDicts, dataclasses or pydantic models, or write the JSON schema.",
        code="unsupported.type_hint",
    )


def _plain(name: str, allows: Callable[[Any], bool], make: Callable[[Any], Any]) -> Shape:
    def read(value: Any) -> Any:
        if not allows(value):
            raise MismatchError(f"{shorten(value)} is no {name}")
        return make(value)

    return Shape({"type": name}, read)


def _is_whole(value: Any) -> bool:
    # By JSON Schema 2.0 is an integer.
    return type(value) is int or (isinstance(value, float) and value.is_integer())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any) -> Any:
    return value


_PLAIN: dict[Any, Shape] = {
    int: _plain("integer", _is_whole, int),
    float: _plain("number", _is_number, float),
    str: _plain("string", lambda value: isinstance(value, str), _same),
    bool: _plain("boolean", lambda value: isinstance(value, bool), _same),
    NOTHING: _plain("null", lambda value: value is None, _same),
    None: _plain("null", lambda value: value is None, _same),
    list: _plain("array", lambda value: isinstance(value, list), _same),
    tuple: _plain("array", lambda value: isinstance(value, list), tuple),
    dict: _plain("object", lambda value: isinstance(value, Mapping), _same),
    Any: Shape({}, _same),
}
_SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean", NOTHING: "null"}


def _list_of(shapes: Shapes, hint: Any) -> Shape:
    item = shapes.of(get_args(hint)[0])

    def read(value: Any) -> list[Any]:
        return [item.read(one) for one in _PLAIN[list].read(value)]

    return Shape({"type": "array", "items": item.schema}, read)


def _tuple_of(shapes: Shapes, hint: Any) -> Shape:
    args = get_args(hint)
    if ... in args or len(args) == 1:
        raise _unsupported(hint, "a list says it better")
    items = [shapes.of(one) for one in args]
    size: Schema = {"minItems": len(items), "maxItems": len(items)} if shapes.exact else {}

    def read(value: Any) -> tuple[Any, ...]:
        values = _PLAIN[list].read(value)
        if len(values) != len(items):
            raise MismatchError(f"{shorten(value)} has not {len(items)} items")
        return tuple(item.read(one) for item, one in zip(items, values, strict=True))

    return Shape({"type": "array", "prefixItems": [item.schema for item in items], **size}, read)


def _dict_of(shapes: Shapes, hint: Any) -> Shape:
    key, held = get_args(hint)
    if key is not str:
        raise _unsupported(hint, "keys of JSON are text")
    item = shapes.of(held)

    def read(value: Any) -> dict[str, Any]:
        return {key: item.read(one) for key, one in _PLAIN[dict].read(value).items()}

    return Shape({"type": "object", "additionalProperties": item.schema}, read)


def _union_of(shapes: Shapes, hint: Any) -> Shape:
    args = get_args(hint)
    inside = [shapes.of(one) for one in args if one is not NOTHING]
    schemas = [shape.schema for shape in inside]
    schema: Schema
    if len(schemas) == 1:
        schema = dict(schemas[0])
    elif all(one.keys() == {"type"} and isinstance(one["type"], str) for one in schemas):
        names = sorted({one["type"] for one in schemas})
        schema = {"type": names[0] if len(names) == 1 else names}
    else:
        schema = {"anyOf": schemas}
    if NOTHING in args and not shapes.exact:
        schema["nullable"] = True
    elif NOTHING in args:
        either = schema["anyOf"] if len(schemas) > 1 and "anyOf" in schema else [schema]
        schema = {"anyOf": [*either, {"type": "null"}]}
    readers = [*inside, *([_PLAIN[NOTHING]] if NOTHING in args else [])]

    def read(value: Any) -> Any:
        for shape in readers:
            try:
                return shape.read(value)
            except MismatchError:
                continue
        raise MismatchError(f"{shorten(value)} is none of {shorten(hint)}")

    return Shape(schema, read)


def _one_of(hint: Any, values: list[Any], read: Callable[[Any], Any]) -> Shape:
    """The shape of one of these values."""
    if not values or any(type(value) not in _SCALARS for value in values):
        raise _unsupported(hint, "its values are not all text, numbers, booleans or None")
    names = list(dict.fromkeys(_SCALARS[type(value)] for value in values))
    kinds = {(type(value), value) for value in values}

    def checked(value: Any) -> Any:
        if type(value) not in _SCALARS or (type(value), value) not in kinds:
            raise MismatchError(f"{shorten(value)} is none of {shorten(values)}")
        return read(value)

    return Shape({"type": names[0] if len(names) == 1 else names, "enum": values}, checked)


def _literal_of(_: Shapes, hint: Any) -> Shape:
    return _one_of(hint, list(get_args(hint)), _same)


def _enum_of(_: Shapes, kind: Any) -> Shape:
    return _one_of(kind, [member.value for member in kind], kind)


def _typed_dict_of(shapes: Shapes, kind: Any) -> Shape:
    # Python tells what is not required only where hints are no texts.
    marks = {name: get_origin(hint) for name, hint in _hints_of(kind, marks=True).items()}
    required = [
        name
        for name, mark in marks.items()
        if mark is Required or (mark is not NotRequired and name in kind.__required_keys__)
    ]
    return shapes.object_of(kind, _hints_of(kind), required, dict)


def _dataclass_of(shapes: Shapes, kind: Any) -> Shape:
    known = [one for one in dataclasses.fields(kind) if one.init]
    missing = dataclasses.MISSING
    required = [
        one.name for one in known if one.default is missing and one.default_factory is missing
    ]
    hints = _hints_of(kind)
    return shapes.object_of(kind, {one.name: hints[one.name] for one in known}, required, kind)


def _model_of(shapes: Shapes, kind: Any) -> Shape:
    """The shape of a pydantic model, by its own word."""
    schema: Schema = kind.model_json_schema()
    for name, defined in schema.pop("$defs", {}).items():
        shapes.define(name, defined)

    def read(value: Any) -> Any:
        try:
            return kind.model_validate_json(json.dumps(value))
        except ValueError as error:  # what pydantic's ValidationError is
            raise MismatchError(str(error)) from error

    return Shape(schema, read)


def _hints_of(kind: Any, *, marks: bool = False) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=marks)
    except (NameError, TypeError) as error:
        raise _unsupported(kind, str(error)) from error


def is_model(kind: Any) -> bool:
    """Whether it is a class of pydantic's, which need not be installed."""
    return all(callable(getattr(kind, name, None)) for name in _MODEL)


_MODEL = ("model_json_schema", "model_validate_json")
_GENERIC: dict[Any, Callable[[Shapes, Any], Shape]] = {
    list: _list_of,
    tuple: _tuple_of,
    dict: _dict_of,
    Union: _union_of,
    types.UnionType: _union_of,
    Literal: _literal_of,
}
CLASSES: tuple[tuple[Callable[[Any], bool], Callable[[Shapes, Any], Shape]], ...] = (
    (is_model, _model_of),
    (is_typeddict, _typed_dict_of),
    (dataclasses.is_dataclass, _dataclass_of),
)
"""Classes whose values are objects."""
_CLASSES = (*CLASSES, (lambda kind: issubclass(kind, Enum), _enum_of))
