"""A JSON Schema as it was given: checked, its places numbered, its references followed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.schema.keywords import NAMES, REFUSED
from edgewise_runtime.grammar.schema.values import LARGEST, in_order

MAX_VALUES = 50_000
"""Objects, arrays and what is in them."""
MAX_DEPTH = 64
"""Objects and arrays within one another."""
MAX_TEXT = 1 << 20
"""Characters of all texts and names."""

Place: TypeAlias = int
"""The number of a place in a document; the root's is 0."""
Schema: TypeAlias = "bool | Mapping[str, Any]"

_SURROGATE = re.compile("[\ud800-\udfff]")
_INDEX = re.compile("0|[1-9][0-9]{0,5}")


class Document:
    """A schema and the places in it that were visited.

    Raises:
        InputError: ``input.schema`` for what is no JSON, or is too large.
    """

    def __init__(self, schema: object) -> None:
        self._held: list[object] = [schema]
        self._above: list[tuple[Place, str]] = [(0, "")]
        self._below: list[dict[str, Place]] = [{}]
        self._refers = False
        self._check(schema)
        name = schema.get("$id") if isinstance(schema, Mapping) else None
        self._name = name.rstrip("#") if isinstance(name, str) else ""

    def _check(self, schema: object) -> None:
        level: list[object] = [schema]
        values = characters = depth = 0
        while level:
            deeper: list[object] = []
            for value in level:
                names: Iterable[object] = ()
                match value:
                    case str():
                        names = (value,)
                    case Mapping():
                        names = value
                        self._refers |= isinstance(value.get("$ref"), str)
                        deeper += value.values()
                    case list():
                        deeper += value
                    case None | bool():
                        pass
                    case int() | float():
                        if not abs(value) <= LARGEST:
                            raise self.wrong(0, f"{shorten(value)} is no number of JSON's")
                    case _:
                        raise self.wrong(0, f"{shorten(value)} is no value of JSON's")
                for name in names:
                    if not isinstance(name, str) or _SURROGATE.search(name):
                        raise self.wrong(0, f"{shorten(name)} is no text of JSON's")
                    characters += len(name)
                if values + len(level) + len(deeper) > MAX_VALUES:
                    raise self.wrong(0, f"there are more than {MAX_VALUES:,} values")
                if characters > MAX_TEXT:
                    raise self.wrong(0, f"there are more than {MAX_TEXT:,} characters")
            values += len(level)
            depth += 1
            if depth > MAX_DEPTH + 1:
                raise self.wrong(0, f"there are more than {MAX_DEPTH} levels")
            level = deeper

    def below(self, place: Place, *parts: str) -> Place:
        """The place of what a value holds under names or indices that it has."""
        for part in parts:
            if part not in self._below[place]:
                held = self._held[place]
                inner = held[int(part)] if isinstance(held, list) else self.fields(place)[part]
                self._below[place][part] = len(self._held)
                self._held.append(inner)
                self._above.append((place, part))
                self._below.append({})
            place = self._below[place][part]
        return place

    def held(self, place: Place) -> Any:
        """The value at a place."""
        return self._held[place]

    def schema(self, place: Place) -> Schema:
        """The schema at a place.

        Raises:
            InputError: ``input.schema`` where none is.
            UnsupportedError: ``unsupported.schema`` for a keyword that is not understood.
        """
        held = self._held[place]
        if isinstance(held, bool):
            return held
        if not isinstance(held, Mapping):
            raise self.wrong(place, f"{shorten(held)} is no schema")
        for keyword in held:
            named = keyword in NAMES and isinstance(held[keyword], str) and place and self._refers
            if keyword in REFUSED or named:
                raise self.refused(place, f"the keyword {shorten(keyword)}")
        return held

    def fields(self, place: Place) -> Mapping[str, Any]:
        """The object at a place."""
        held = self._held[place]
        if not isinstance(held, Mapping):
            raise self.wrong(place, f"{shorten(held)} is no object")
        return held

    def places(self, place: Place, keyword: str) -> list[Place]:
        """The places of a list of schemas under a keyword."""
        at = self.below(place, keyword)
        held = self._held[at]
        if not isinstance(held, list) or not held:
            raise self.wrong(at, f"{shorten(held)} is no list of schemas")
        return [self.below(at, str(i)) for i in range(len(held))]

    def names(self, place: Place, keyword: str) -> list[str]:
        """The names under a keyword: those that are indices first, as ECMAScript orders them."""
        return in_order(self.fields(self.below(place, keyword)))

    def target(self, place: Place) -> Place:
        """Where the reference of a schema leads.

        Raises:
            InputError: ``input.schema`` where nothing is.
            UnsupportedError: ``unsupported.schema`` where it leads out of the document, or is not
                by JSON pointer.
        """
        written = self.fields(place)["$ref"]
        if not isinstance(written, str):
            raise self.wrong(place, f"{shorten(written)} is no reference")
        inside = written.removeprefix(self._name) if self._name else written
        if inside not in ("", "#") and not inside.startswith("#/"):
            raise self.refused(place, f"the reference {shorten(written)}")
        found: Place = 0
        for escaped in unquote(inside[1:]).split("/")[1:]:
            part = escaped.replace("~1", "/").replace("~0", "~")
            held = self._held[found]
            if found and isinstance(held, Mapping) and _is_named(held):
                said = f"the reference {shorten(written)} through a schema with a name"
                raise self.refused(place, said)
            if isinstance(held, list):
                there = bool(_INDEX.fullmatch(part)) and int(part) < len(held)
            else:
                there = isinstance(held, Mapping) and part in held
            if not there:
                raise self.wrong(place, f"nothing is at {shorten(written)}")
            found = self.below(found, part)
        return found

    def refused(self, place: Place, what: str) -> UnsupportedError:
        """The error for what is not supported."""
        return UnsupportedError(
            f"The schema at {self.pointer(place)}: {what} is not supported.",
            code="unsupported.schema",
        )

    def wrong(self, place: Place, what: str) -> InputError:
        """The error for what is no schema."""
        return InputError(f"The schema at {self.pointer(place)}: {what}.", code="input.schema")

    def pointer(self, place: Place) -> str:
        """A place as a JSON pointer (RFC 6901), shortened."""
        parts: list[str] = []
        while place:
            place, part = self._above[place]
            parts.append(part[:80].replace("~", "~0").replace("/", "~1"))
        return "/".join(["#", *reversed(parts)])[:200]


def _is_named(fields: Mapping[str, Any]) -> bool:
    return any(isinstance(fields.get(keyword), str) for keyword in NAMES)
