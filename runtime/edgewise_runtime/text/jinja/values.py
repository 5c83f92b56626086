"""The values of a template besides plain JSON's, and how values are written.

Text, lists and dicts are never changed, so only a namespace can hold itself, and none is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from edgewise_runtime.text.jinja.run import (
    Run,
    TemplateError,
    TemplateLimitError,
    Value,
)

MAX_NESTED = 100
"""Lists and dicts within one another that are written or compared."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """A name or member that there is none of."""

    said: str


@dataclass(frozen=True, slots=True)
class Marked:
    """Text whose &, <, > and quotes stand for themselves: the result of `safe` and `escape`."""

    text: str


@dataclass(eq=False, slots=True)
class Namespace:
    """Values that a template may set from within its loops."""

    values: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Stream:
    """Items that can be gone through once, as those of Python's generators."""

    items: list[Value]

    def take(self) -> list[Value]:
        taken, self.items = self.items, []
        return taken


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function, filter or test is called with."""

    placed: list[Value]
    named: dict[str, Value]

    def bind(self, name: str, **defaults: Value) -> list[Value]:
        """Return a value for each parameter, in order; REQUIRED ones have no default."""
        if len(self.placed) > len(defaults):
            raise TemplateError(f"{name} takes at most {len(defaults)} arguments")
        bound = dict(zip(defaults, self.placed, strict=False))
        for given, value in self.named.items():
            if given not in defaults or given in bound:
                raise TemplateError(f"{name} takes no argument {given}, or takes it once")
            bound[given] = value
        missing = [p for p, default in defaults.items() if default is REQUIRED and p not in bound]
        if missing:
            raise TemplateError(f"{name} needs {missing[0]}")
        return [bound.get(parameter, default) for parameter, default in defaults.items()]


REQUIRED = Undefined("an argument is missing")


@dataclass(eq=False, slots=True)
class Function:
    """What a template can call."""

    name: str
    call: Callable[[Run, Arguments], Value]


@dataclass(eq=False, slots=True)
class Loop:
    """What `loop` is within a loop."""

    items: list[Value]
    index0: int = 0
    changed: Value = None


def truth(value: Value) -> bool:
    if isinstance(value, Undefined):
        return False
    return bool(value.text) if isinstance(value, Marked) else bool(value)


def kind(value: Value) -> str:
    """Return the name of a value's type, for messages and tables."""
    return _KINDS.get(type(value), "function")


_KINDS: dict[type, str] = {
    type(None): "none",
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "text",
    Marked: "marked text",
    list: "list",
    tuple: "tuple",
    dict: "dict",
    Undefined: "undefined",
    Namespace: "namespace",
    Stream: "stream",
    Loop: "loop",
}


def plain_text(value: Value, what: str) -> str:
    """Return a text as it is; anything else is refused."""
    if isinstance(value, str):
        return value
    if isinstance(value, Undefined):
        raise TemplateError(value.said)
    raise TemplateError(f"{what} takes text, not {kind(value)}")


def whole(value: Value, what: str) -> int:
    if isinstance(value, int):
        return int(value)
    raise TemplateError(f"{what} takes whole numbers, not {kind(value)}")


def text_of(run: Run, value: Value) -> str:
    """Return a value as `str` writes it."""
    match value:
        case str():
            return value
        case Marked():
            return value.text
        case Undefined():
            return ""
    pieces: list[str] = []
    _represent(run, value, pieces, 0)
    return "".join(pieces)


def _represent(run: Run, value: Value, pieces: list[str], depth: int) -> None:
    deeper(run, depth)
    match value:
        case None | bool() | int() | float():
            pieces.append(run.made(repr(value)))
        case str():
            run.make(len(value) if value.isprintable() else 10 * len(value))
            pieces.append(repr(value))
        case Undefined():
            pieces.append("Undefined")
        case list() | tuple():
            opening, closing = "[]" if isinstance(value, list) else "()"
            pieces.append(opening)
            for i, item in enumerate(value):
                if i:
                    pieces.append(", ")
                _represent(run, item, pieces, depth + 1)
            pieces.append(",)" if isinstance(value, tuple) and len(value) == 1 else closing)
        case dict():
            pieces.append("{")
            for i, (key, item) in enumerate(value.items()):
                if i:
                    pieces.append(", ")
                _represent(run, key, pieces, depth + 1)
                pieces.append(": ")
                _represent(run, item, pieces, depth + 1)
            pieces.append("}")
        case _:
            raise TemplateError(f"a {kind(value)} cannot be written")


def deeper(run: Run, depth: int) -> None:
    run.spend(1)
    if depth > MAX_NESTED:
        raise TemplateLimitError(f"it nests lists and dicts more than {MAX_NESTED} deep")


def items_of(run: Run, value: Value) -> list[Value]:
    """Return what going through a value gives."""
    match value:
        case list():
            return value
        case Stream():
            return value.take()
        case Undefined():
            return []
        case str() | tuple() | dict():
            run.items(len(value))
            return list(value)
    raise TemplateError(f"a {kind(value)} has no items")


def size_of(value: Value) -> int:
    match value:
        case str() | list() | tuple() | dict():
            return len(value)
        case Marked():
            return len(value.text)
        case Undefined():
            return 0
    raise TemplateError(f"a {kind(value)} has no length")


def finite(value: int | float) -> int | float:
    if not math.isfinite(value):
        raise TemplateError("a number is too large")
    return value
