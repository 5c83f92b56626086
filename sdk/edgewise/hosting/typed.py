"""Dataclasses of JSON values, read by their type hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from edgewise_runtime.format.reading import shorten

Read = Callable[[Any], Any]


class MisfitError(ValueError):
    """A value is not what a hint says."""


@lru_cache(maxsize=256)
def reader_of(hint: Any) -> Read:
    """What reads a value of this hint, whose list begins with the name where it is a dataclass.

    Hints are Any, None, bool, int, float, str, bytes, dataclasses, unions, tuples, sequences and
    mappings from text. It raises `MisfitError` for other values.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, UnionType):
        return _any_of(args)
    if origin is tuple and args[-1] is not Ellipsis:
        return _each(tuple(map(reader_of, args)))
    if origin in (tuple, Sequence):
        return _all(reader_of(args[0]), args[0])
    if origin is Mapping:
        return _values(reader_of(args[1]))
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    return _plain(hint)


def _plain(kind: Any) -> Read:
    allowed: Any = {float: (int, float), bytes: str, None: NoneType}.get(kind, kind)
    numbers = kind in (int, float)

    def read(value: Any) -> Any:
        if not isinstance(value, allowed) or (numbers and isinstance(value, bool)):
            raise _misfit(value, kind)
        if kind is bytes:
            try:
                return value.encode("latin-1")
            except UnicodeError as error:
                raise _misfit(value, kind) from error
        return _float(value) if kind is float else value

    return read


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise _misfit(value, float) from error


def _any_of(hints: Any) -> Read:
    classes = {id(one) for one in hints if is_dataclass(one)}
    named = {one.__name__: reader_of(one) for one in hints if id(one) in classes}
    others = [reader_of(one) for one in hints if id(one) not in classes]

    def read(value: Any) -> Any:
        name = value[0] if isinstance(value, list) and value else None
        if isinstance(name, str) and name in named:
            return named[name](value)
        for other in others:
            try:
                return other(value)
            except MisfitError:
                continue
        raise _misfit(value, hints)

    return read


def _each(readers: tuple[Read, ...]) -> Read:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(readers):
            raise _misfit(value, f"{len(readers)} values")
        return tuple(one(item) for one, item in zip(readers, value, strict=True))

    return read


def _all(reader: Read, hint: Any) -> Read:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _misfit(value, list)
        # Token ids and texts are most of what comes.
        if hint in (int, str) and all(type(item) is hint for item in value):
            return tuple(value)
        return tuple(map(reader, value))

    return read


def _values(reader: Read) -> Read:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit(value, dict)
        return {key: reader(item) for key, item in value.items()}

    return read


def _dataclass(kind: type) -> Read:
    hints = get_type_hints(kind)
    made_of = [one.name for one in fields(kind)]
    readers = _each((_plain(str), *(reader_of(hints[name]) for name in made_of)))
    by_name = any(one.kw_only for one in fields(kind))

    def read(value: Any) -> Any:
        name, *held = readers(value)
        if name != kind.__name__:
            raise _misfit(name, kind.__name__)
        return kind(**dict(zip(made_of, held, strict=True))) if by_name else kind(*held)

    return read


def _misfit(value: Any, wanted: Any) -> MisfitError:
    name = wanted.__name__ if isinstance(wanted, type) else wanted
    return MisfitError(f"{shorten(value)} is not {shorten(name)}")
