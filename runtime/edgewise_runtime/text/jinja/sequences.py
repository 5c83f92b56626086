"""Jinja's filters that go through the items of a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key

from edgewise_runtime.text.jinja.arithmetic import add
from edgewise_runtime.text.jinja.checks import check
from edgewise_runtime.text.jinja.compare import equal, order
from edgewise_runtime.text.jinja.members import item as item_of
from edgewise_runtime.text.jinja.members import pairs_of
from edgewise_runtime.text.jinja.run import Run, TemplateError, Value
from edgewise_runtime.text.jinja.values import (
    Arguments,
    Marked,
    Stream,
    Undefined,
    items_of,
    kind,
    plain_text,
    truth,
    whole,
)

Filter = Callable[[Run, Value, Arguments], Value]


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


def _sum(run: Run, value: Value, given: Arguments) -> Value:
    name, total = given.bind("sum", attribute=None, start=0)
    if isinstance(total, str | Marked):
        raise TemplateError("sum adds no text")
    for item in looked_up(run, items_of(run, value), name):
        total = add(run, total, item)
    return total


def _sort(run: Run, value: Value, given: Arguments) -> Value:
    down, cased, name = given.bind("sort", reverse=False, case_sensitive=False, attribute=None)
    if isinstance(name, str) and "," in name:
        raise TemplateError("sort takes one attribute")
    items = items_of(run, value)
    keys = _sort_keys(run, looked_up(run, items, name), truth(cased))
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


def _extreme(name: str, sign: int) -> Filter:
    def apply(run: Run, value: Value, given: Arguments) -> Value:
        cased, of = given.bind(name, case_sensitive=False, attribute=None)
        items = items_of(run, value)
        keys = _sort_keys(run, looked_up(run, items, of), truth(cased))
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
    keys = _sort_keys(run, looked_up(run, items, name), truth(cased))
    for item, key in zip(items, keys, strict=True):
        if isinstance(key, list | dict):
            raise TemplateError(f"unique cannot compare {kind(key)}")
        if not any(equal(run, key, other) for other in seen):
            seen.append(key)
            kept.append(item)
    return Stream(kept)


def looked_up(run: Run, items: list[Value], path: Value, default: Value = None) -> list[Value]:
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
            item = item_of(item, step)
            if default is not None and isinstance(item, Undefined):
                item = default
        found.append(item)
    return found


def _is_digits(text: str) -> bool:
    return 0 < len(text) < 10 and text.isascii() and text.isdigit()


def _select(name: str, wanted: bool, by_attribute: bool) -> Filter:
    def apply(run: Run, value: Value, given: Arguments) -> Value:
        items = items_of(run, value) if truth(value) else []
        placed = list(given.placed)
        looked = items
        if by_attribute:
            if not placed:
                raise TemplateError(f"{name} needs an attribute")
            looked = looked_up(run, items, placed.pop(0))
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


SEQUENCE_FILTERS: Mapping[str, Filter] = {
    "dictsort": _sort_by,
    "first": _first,
    "items": _items,
    "last": _last,
    "list": _list,
    "max": _extreme("max", -1),
    "min": _extreme("min", 1),
    "reject": _select("reject", False, False),
    "rejectattr": _select("rejectattr", False, True),
    "reverse": _reverse,
    "select": _select("select", True, False),
    "selectattr": _select("selectattr", True, True),
    "sort": _sort,
    "sum": _sum,
    "unique": _unique,
}
