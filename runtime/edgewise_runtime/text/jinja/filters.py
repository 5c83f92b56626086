"""Jinja's filters: what `value | name` makes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgewise_runtime.text.jinja.arithmetic import escaped, joined, number, percent, within
from edgewise_runtime.text.jinja.json import Json
from edgewise_runtime.text.jinja.run import Run, TemplateError, Value
from edgewise_runtime.text.jinja.sequences import SEQUENCE_FILTERS, Filter, looked_up
from edgewise_runtime.text.jinja.texts import TEXT_METHODS, replaced, split_lines
from edgewise_runtime.text.jinja.values import (
    REQUIRED,
    Arguments,
    Marked,
    Stream,
    Undefined,
    items_of,
    kind,
    plain_text,
    size_of,
    text_of,
    truth,
    whole,
)

_WORDS = re.compile(r"([-\s({\[<]+)")
_INTEGER = re.compile(r"\s*[-+]?[0-9]+(?:_[0-9]+)*\s*", re.A)
_FLOAT = re.compile(
    r"\s*[-+]?(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)"
    r"(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?\s*",
    re.A,
)
_MAX_DIGITS = 40


def filtered(run: Run, name: str, value: Value, given: Arguments) -> Value:
    """Return what the filter `name` makes of a value."""
    if name not in _FILTERS:
        raise TemplateError(f"there is no filter {name!r}")
    return _FILTERS[name](run, value, given)


def _string(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("string")
    return value if isinstance(value, Marked) else text_of(run, value)


def _unmarked_text(run: Run, value: Value, name: str) -> str:
    if isinstance(value, Marked):
        raise TemplateError(f"{name} is not supported for text that is marked safe")
    return text_of(run, value)


def _as_method(name: str) -> Filter:
    def apply(run: Run, value: Value, given: Arguments) -> Value:
        return TEXT_METHODS[name](run, _unmarked_text(run, value, name), given)

    return apply


def _trim(run: Run, value: Value, given: Arguments) -> Value:
    (characters,) = given.bind("trim", chars=None)
    text = _unmarked_text(run, value, "trim")
    return TEXT_METHODS["strip"](run, text, Arguments([characters], {}))


def _title(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("title")
    text = _unmarked_text(run, value, "title")
    run.items(len(text))
    words = [word for word in _WORDS.split(text) if word]
    return run.made("".join(word[0].upper() + word[1:].lower() for word in words))


def _replace(run: Run, value: Value, given: Arguments) -> Value:
    old, new, most = given.bind("replace", old=REQUIRED, new=REQUIRED, count=None)
    texts = [_unmarked_text(run, text, "replace") for text in (value, old, new)]
    return replaced(
        run, texts[0], texts[1], texts[2], -1 if most is None else whole(most, "replace")
    )


def _indent(run: Run, value: Value, given: Arguments) -> Value:
    width, first, blank = given.bind("indent", width=4, first=False, blank=False)
    text = plain_text(value, "indent")
    size = len(width) if isinstance(width, str) else max(0, whole(width, "indent"))
    run.make(size)
    space = width if isinstance(width, str) else " " * size
    lines = split_lines(run, text + "\n")
    run.make(len(text) + len(lines) * (1 + len(space)))
    indented = [space + line if line or truth(blank) else line for line in lines[1:]]
    return (space if truth(first) else "") + "\n".join([lines[0], *indented])


def _escape(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("escape")
    return value if isinstance(value, Marked) else Marked(escaped(run, text_of(run, value)))


def _safe(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("safe")
    return value if isinstance(value, Marked) else Marked(text_of(run, value))


def _format(run: Run, value: Value, given: Arguments) -> Value:
    if given.named:
        raise TemplateError("format takes values without names")
    return percent(run, _unmarked_text(run, value, "format"), given.placed)


def _to_json(run: Run, value: Value, given: Arguments) -> Value:
    ascii_only, indent, separators, sort_keys = given.bind(
        "tojson", ensure_ascii=False, indent=None, separators=None, sort_keys=False
    )
    match separators:
        case None:
            between, after_key = ", " if indent is None else ",", ": "
        case (str() as between, str() as after_key) | [str() as between, str() as after_key]:
            pass
        case _:
            raise TemplateError("the separators of tojson are two texts")
    if indent is not None and not isinstance(indent, str):
        size = max(0, whole(indent, "tojson"))
        run.make(size)
        indent = " " * size
    form = Json(indent, between, after_key, truth(sort_keys), truth(ascii_only))
    return form.text(run, value)


def _int(run: Run, value: Value, given: Arguments) -> Value:
    default, base = given.bind("int", default=0, base=10)
    if base != 10:
        raise TemplateError("int is only supported to the base of 10")
    known = _parsed(run, value, _INTEGER)
    if known is None:
        known = _parsed(run, value, _FLOAT)
    return default if known is None else within(int(known))


def _float(run: Run, value: Value, given: Arguments) -> Value:
    (default,) = given.bind("float", default=0.0)
    known = _parsed(run, value, _FLOAT)
    return default if known is None else within(float(known))


def _parsed(run: Run, value: Value, form: re.Pattern[str]) -> int | float | None:
    """The number that a value is or a text says; None where it says none."""
    if isinstance(value, Undefined):
        raise TemplateError(value.said)
    if not isinstance(value, str | Marked):
        return number(value)
    text = value.text if isinstance(value, Marked) else value
    run.look(len(text))
    if not form.fullmatch(text):
        return None
    if len(text.strip()) > _MAX_DIGITS:
        raise TemplateError("a number has too many digits")
    return int(text) if form is _INTEGER else within(float(text))


def _abs(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("abs")
    known = number(value)
    if known is None:
        raise TemplateError(f"abs takes a number, not {kind(value)}")
    return abs(known)


def _default(run: Run, value: Value, given: Arguments) -> Value:
    default, falsy = given.bind("default", default_value="", boolean=False)
    missing = isinstance(value, Undefined) or (truth(falsy) and not truth(value))
    return default if missing else value


def _length(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("length")
    return size_of(value)


def _join(run: Run, value: Value, given: Arguments) -> Value:
    between, name = given.bind("join", d="", attribute=None)
    items = looked_up(run, items_of(run, value), name)
    text = _unmarked_text(run, between, "join")
    return joined(run, [_unmarked_text(run, item, "join") for item in items], text)


def _map(run: Run, value: Value, given: Arguments) -> Value:
    items = items_of(run, value) if truth(value) else []
    if not given.placed:
        name, default = given.bind("map", attribute=REQUIRED, default=None)
        return Stream(looked_up(run, items, name, default))
    run.items(len(items))
    rest = Arguments(given.placed[1:], given.named)
    filter_name = plain_text(given.placed[0], "map")
    return Stream([filtered(run, filter_name, item, rest) for item in items])


_FILTERS: Mapping[str, Filter] = {
    "abs": _abs,
    "capitalize": _as_method("capitalize"),
    **dict.fromkeys(("default", "d"), _default),
    **dict.fromkeys(("escape", "e"), _escape),
    "float": _float,
    "format": _format,
    "indent": _indent,
    "int": _int,
    "join": _join,
    **dict.fromkeys(("length", "count"), _length),
    "lower": _as_method("lower"),
    "map": _map,
    "replace": _replace,
    "safe": _safe,
    "string": _string,
    "title": _title,
    "tojson": _to_json,
    "trim": _trim,
    "upper": _as_method("upper"),
    **SEQUENCE_FILTERS,
}
