"""Jinja's filters: what `value | name` makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cmp_to_key

from edgewise_runtime.text.jinja.arithmetic import add, escaped, joined, number, percent, within
from edgewise_runtime.text.jinja.checks import check
from edgewise_runtime.text.jinja.compare import equal, order
from edgewise_runtime.text.jinja.members import item as item_of
from edgewise_runtime.text.jinja.members import pairs_of
from edgewise_runtime.text.jinja.run import Run, TemplateError, Value
from edgewise_runtime.text.jinja.texts import TEXT_METHODS, replaced, split_lines
from edgewise_runtime.text.jinja.values import (
    REQUIRED,
    Arguments,
    Json,
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

_Filter = Callable[[Run, Value, Arguments], Value]
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


def _as_method(name: str) -> _Filter:
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


def _first(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("first")
    items = value[:1] if isinstance(value, str) else items_of(run, value)
    return items[0] if items else Undefined("there is no first item")


def _last(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("last")
    if isinstance(value, Stream):
        raise TemplateError("a stream has no last item")
    items = value[-1:] if isinstance(value, str) else items_of(run, value)
    return items[-1] if items else Undefined("there is no last item")


def _list(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("list")
    return items_of(run, value)


def _reverse(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("reverse")
    if isinstance(value, str):
        run.make(len(value))
        return value[::-1]
    items = items_of(run, value)
    run.items(len(items))
    return Stream(items[::-1])


def _items(run: Run, value: Value, given: Arguments) -> Value:
    given.bind("items")
    return Stream([] if isinstance(value, Undefined) else pairs_of(run, value))


def _join(run: Run, value: Value, given: Arguments) -> Value:
    between, name = given.bind("join", d="", attribute=None)
    items = _looked_up(run, items_of(run, value), name)
    text = _unmarked_text(run, between, "join")
    return joined(run, [_unmarked_text(run, item, "join") for item in items], text)


def _sum(run: Run, value: Value, given: Arguments) -> Value:
    name, total = given.bind("sum", attribute=None, start=0)
    if isinstance(total, str | Marked):
        raise TemplateError("sum adds no text")
    for item in _looked_up(run, items_of(run, value), name):
        total = add(run, total, item)
    return total


def _sort(run: Run, value: Value, given: Arguments) -> Value:
    down, cased, name = given.bind("sort", reverse=False, case_sensitive=False, attribute=None)
    if isinstance(name, str) and "," in name:
        raise TemplateError("sort takes one attribute")
    items = items_of(run, value)
    keys = _sort_keys(run, _looked_up(run, items, name), truth(cased))
    return _sorted(run, items, keys, truth(down))


def _sort_by(run: Run, value: Value, given: Arguments) -> Value:
    cased, by, down = given.bind("dictsort", case_sensitive=False, by="key", reverse=False)
    if by not in ("key", "value"):
        raise TemplateError("dictsort sorts by key or by value")
    pairs = pairs_of(run, value)
    keys = [pair[by == "value"] for pair in pairs if isinstance(pair, tuple)]
    return _sorted(run, pairs, _sort_keys(run, keys, truth(cased)), truth(down))


def _sort_keys(run: Run, keys: list[Value], cased: bool) -> list[Value]:
    run.items(len(keys))
    return keys if cased else [_lowered(run, key) for key in keys]


def _lowered(run: Run, key: Value) -> Value:
    return run.made(key.lower()) if isinstance(key, str) else key


def _sorted(run: Run, items: list[Value], keys: list[Value], down: bool) -> list[Value]:
    run.items(2 * len(items))

    def compared(a: int, b: int) -> int:
        return order(run, keys[a], keys[b])

    return [items[i] for i in sorted(range(len(items)), key=cmp_to_key(compared), reverse=down)]


def _extreme(name: str, sign: int) -> _Filter:
    def apply(run: Run, value: Value, given: Arguments) -> Value:
        cased, of = given.bind(name, case_sensitive=False, attribute=None)
        items = items_of(run, value)
        keys = _sort_keys(run, _looked_up(run, items, of), truth(cased))
        best = 0
        for i in range(1, len(items)):
            if sign * order(run, keys[i], keys[best]) < 0:
                best = i
        return items[best] if items else Undefined(f"there is no {name}")

    return apply


def _unique(run: Run, value: Value, given: Arguments) -> Value:
    cased, name = given.bind("unique", case_sensitive=False, attribute=None)
    items = items_of(run, value)
    seen: list[Value] = []
    kept: list[Value] = []
    keys = _sort_keys(run, _looked_up(run, items, name), truth(cased))
    for item, key in zip(items, keys, strict=True):
        if isinstance(key, list | dict):
            raise TemplateError(f"unique cannot compare {kind(key)}")
        if not any(equal(run, key, other) for other in seen):
            seen.append(key)
            kept.append(item)
    return Stream(kept)


def _looked_up(run: Run, items: list[Value], path: Value, default: Value = None) -> list[Value]:
    """The value of each item at a path such as ``function.name``; the items where there is none."""
    run.items(len(items))
    if path is None:
        return items
    if isinstance(path, str):
        run.items(len(path))
        parts: list[Value] = [int(p) if _is_digits(p) else p for p in path.split(".")]
    else:
        parts = [whole(path, "an attribute")]
    found: list[Value] = []
    for item in items:
        for step in parts:
            run.spend(1)
            item = item_of(run, item, step)
            if default is not None and isinstance(item, Undefined):
                item = default
        found.append(item)
    return found


def _is_digits(text: str) -> bool:
    return 0 < len(text) < 10 and text.isascii() and text.isdigit()


def _map(run: Run, value: Value, given: Arguments) -> Value:
    items = items_of(run, value) if truth(value) else []
    if not given.placed:
        name, default = given.bind("map", attribute=REQUIRED, default=None)
        return Stream(_looked_up(run, items, name, default))
    run.items(len(items))
    rest = Arguments(given.placed[1:], given.named)
    filter_name = plain_text(given.placed[0], "map")
    return Stream([filtered(run, filter_name, item, rest) for item in items])


def _select(name: str, wanted: bool, by_attribute: bool) -> _Filter:
    def apply(run: Run, value: Value, given: Arguments) -> Value:
        items = items_of(run, value) if truth(value) else []
        placed = list(given.placed)
        looked = items
        if by_attribute:
            if not placed:
                raise TemplateError(f"{name} needs an attribute")
            looked = _looked_up(run, items, placed.pop(0))
        test = plain_text(placed.pop(0), name) if placed else None
        rest = Arguments(placed, given.named)
        run.items(len(items))
        return Stream(
            [
                item
                for item, asked in zip(items, looked, strict=True)
                if (truth(asked) if test is None else check(run, test, asked, rest)) == wanted
            ]
        )

    return apply


_FILTERS: Mapping[str, _Filter] = {
    "abs": _abs,
    "capitalize": _as_method("capitalize"),
    **dict.fromkeys(("default", "d"), _default),
    "dictsort": _sort_by,
    **dict.fromkeys(("escape", "e"), _escape),
    "first": _first,
    "float": _float,
    "format": _format,
    "indent": _indent,
    "int": _int,
    "items": _items,
    "join": _join,
    "last": _last,
    **dict.fromkeys(("length", "count"), _length),
    "list": _list,
    "lower": _as_method("lower"),
    "map": _map,
    "max": _extreme("max", -1),
    "min": _extreme("min", 1),
    "reject": _select("reject", False, False),
    "rejectattr": _select("rejectattr", False, True),
    "replace": _replace,
    "reverse": _reverse,
    "safe": _safe,
    "select": _select("select", True, False),
    "selectattr": _select("selectattr", True, True),
    "sort": _sort,
    "string": _string,
    "sum": _sum,
    "title": _title,
    "tojson": _to_json,
    "trim": _trim,
    "unique": _unique,
    "upper": _as_method("upper"),
}
