"""What a template reads of a value: items, slices, and the members of Python's types by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgewise_runtime.text.jinja.compare import equal, key_of
from edgewise_runtime.text.jinja.run import Run, TemplateError, Value
from edgewise_runtime.text.jinja.texts import TEXT_METHODS
from edgewise_runtime.text.jinja.values import (
    REQUIRED,
    Arguments,
    Function,
    Loop,
    Namespace,
    Undefined,
    kind,
    whole,
)

Method = Callable[[Run, Value, Arguments], Value]

_REFUSED: Mapping[str, frozenset[str]] = {
    "text": frozenset(
        "casefold center encode expandtabs format_map isascii isdecimal isidentifier isnumeric "
        "isprintable istitle ljust maketrans rindex rjust swapcase translate zfill".split()
    ),
    "list": frozenset("append clear copy extend insert pop remove reverse sort".split()),
    "dict": frozenset("clear copy fromkeys pop popitem setdefault update".split()),
}
"""Members of Python's types that a template may not use: they change a value, or are not ours."""


def attribute(base: Value, name: str) -> Value:
    """Return ``base.name``: a member of the type, or else an item."""
    found = _member(base, name)
    if isinstance(found, Undefined) and isinstance(base, dict) and name in base:
        return base[name]
    return found


def item(base: Value, key: Value) -> Value:
    """Return ``base[key]``: an item, or else a member of the type."""
    if isinstance(base, dict):
        known = None if isinstance(key, list | dict) else key_of(key)
        if known in base:
            return base[known]
    elif isinstance(base, str | list | tuple) and isinstance(key, int):
        return base[key] if -len(base) <= key < len(base) else _missing(base, key)
    return _member(base, key) if isinstance(key, str) else _missing(base, key)


def part(run: Run, base: Value, bounds: list[Value]) -> Value:
    """Return ``base[start:stop:step]``."""
    if not isinstance(base, str | list | tuple):
        raise TemplateError(f"a {kind(base)} has no slices")
    limits = [None if bound is None else whole(bound, "a slice") for bound in bounds]
    if limits[2] == 0:
        raise TemplateError("the step of a slice is not 0")
    cut = slice(*limits)
    count = len(range(*cut.indices(len(base))))
    if isinstance(base, str):
        run.make(count)
        return base[cut]
    run.items(count)
    return base[cut]


def _member(base: Value, name: str) -> Value:
    match base:
        case Undefined():
            raise TemplateError(base.said)
        case Namespace():
            return base.values.get(name, _missing(base, name))
        case Loop() if name in _LOOP:
            return _LOOP[name](base)
    if name.startswith("__"):
        raise TemplateError(f"{name[:40]!r} cannot be read")
    of = kind(base)
    method = _METHODS.get(of, _NO_METHODS).get(name)
    if method is not None:
        return Function(name, lambda run, given: method(run, base, given))
    if name in _REFUSED.get(of, ()):
        raise TemplateError(f"{name} of a {of} cannot be used")
    return _missing(base, name)


def _missing(base: Value, name: object) -> Undefined:
    if isinstance(base, Undefined):
        raise TemplateError(base.said)
    return Undefined(
        f"a {kind(base)} has no {str(name)[:40]!r}" if type(name) in (str, int) else ""
    )


_LOOP: Mapping[str, Callable[[Loop], Value]] = {
    "index": lambda loop: loop.index0 + 1,
    "index0": lambda loop: loop.index0,
    "revindex": lambda loop: len(loop.items) - loop.index0,
    "revindex0": lambda loop: len(loop.items) - loop.index0 - 1,
    "first": lambda loop: loop.index0 == 0,
    "last": lambda loop: loop.index0 == len(loop.items) - 1,
    "length": lambda loop: len(loop.items),
    "depth": lambda loop: 1,
    "depth0": lambda loop: 0,
    "previtem": lambda loop: (
        loop.items[loop.index0 - 1] if loop.index0 else Undefined("there is no previous item")
    ),
    "nextitem": lambda loop: (
        loop.items[loop.index0 + 1]
        if loop.index0 + 1 < len(loop.items)
        else Undefined("there is no next item")
    ),
    "cycle": lambda loop: Function("cycle", lambda run, given: _cycled(loop, given)),
    "changed": lambda loop: Function("changed", lambda run, given: _changed(run, loop, given)),
}


def _cycled(loop: Loop, given: Arguments) -> Value:
    if not given.placed or given.named:
        raise TemplateError("cycle takes values")
    return given.placed[loop.index0 % len(given.placed)]


def _changed(run: Run, loop: Loop, given: Arguments) -> Value:
    same = loop.changed is not None and equal(run, loop.changed, given.placed)
    loop.changed = given.placed
    return not same


def _keys(run: Run, base: Value, given: Arguments) -> Value:
    given.bind("keys")
    entries = _entries(run, base)
    return list(entries)


def _values(run: Run, base: Value, given: Arguments) -> Value:
    given.bind("values")
    return list(_entries(run, base).values())


def _items(run: Run, base: Value, given: Arguments) -> Value:
    given.bind("items")
    return pairs_of(run, base)


def pairs_of(run: Run, base: Value) -> list[Value]:
    """Return the keys and values of a dict, as tuples."""
    entries = _entries(run, base)
    run.items(2 * len(entries))
    return list(entries.items())


def _entries(run: Run, base: Value) -> dict[str | int, Value]:
    if not isinstance(base, dict):
        raise TemplateError(f"a {kind(base)} has no keys and values")
    run.items(len(base))
    return base


def _get(run: Run, base: Value, given: Arguments) -> Value:
    key, default = given.bind("get", key=REQUIRED, default=None)
    return base.get(key_of(key), default) if isinstance(base, dict) else default


def _count(run: Run, base: Value, given: Arguments) -> Value:
    (wanted,) = given.bind("count", value=REQUIRED)
    items = base if isinstance(base, list | tuple) else []
    return sum(equal(run, item, wanted) for item in items)


def _index(run: Run, base: Value, given: Arguments) -> Value:
    (wanted,) = given.bind("index", value=REQUIRED)
    items = base if isinstance(base, list | tuple) else []
    for i, item in enumerate(items):
        if equal(run, item, wanted):
            return i
    raise TemplateError("index finds no such item")


_LISTS: Mapping[str, Method] = {"count": _count, "index": _index}
_METHODS: Mapping[str, Mapping[str, Method]] = {
    "text": TEXT_METHODS,
    "list": _LISTS,
    "tuple": _LISTS,
    "dict": {"get": _get, "items": _items, "keys": _keys, "values": _values},
}
_NO_METHODS: Mapping[str, Method] = {}
