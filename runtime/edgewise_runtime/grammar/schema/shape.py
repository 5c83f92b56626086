"""Schemas that must all hold, with what they refer to, taken together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.schema.document import Document, Place
from edgewise_runtime.grammar.schema.keywords import OF_TYPE, TYPES
from edgewise_runtime.grammar.schema.values import is_number


@dataclass(frozen=True, slots=True)
class Atom:
    """A schema: all of it, only what is its own, or only that one of some schemas holds."""

    part: Literal["all", "own", "anyOf", "oneOf"]
    place: Place


Atoms = tuple[Atom, ...]
"""What must hold together."""


def whole(*places: Place) -> Atoms:
    return tuple(Atom("all", place) for place in places)


def expanded(document: Document, atoms: Atoms) -> Atoms | None:
    """The same without schemas that are made of others, each atom once; None if nothing holds.

    Raises:
        UnsupportedError: ``unsupported.schema`` for what is made of itself, which no validator ends
            on.
    """
    found: dict[Atom, None] = {}
    seen: set[Atom] = set()
    within: set[Atom] = set()
    waiting = [(atom, False) for atom in reversed(atoms)]
    while waiting:
        atom, left = waiting.pop()
        if left:
            within.remove(atom)
        if atom in within:
            raise document.refused(atom.place, "a schema that refers to itself, nothing between,")
        if atom in seen:
            continue
        seen.add(atom)
        if atom.part != "all":
            found[atom] = None
            continue
        schema = document.schema(atom.place)
        if isinstance(schema, bool):
            if not schema:
                return None
            continue
        inner = [Atom("own", atom.place)]
        if "$ref" in schema:
            inner += whole(document.target(atom.place))
        if "allOf" in schema:
            inner += whole(*document.places(atom.place, "allOf"))
        if "anyOf" in schema:
            inner.append(Atom("anyOf", atom.place))
        if "oneOf" in schema:
            inner.append(Atom("oneOf", atom.place))
        within.add(atom)
        waiting.append((atom, True))
        waiting += ((each, False) for each in reversed(inner))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Shape:
    """Schemas' own keywords, which must all hold."""

    document: Document
    places: tuple[Place, ...]

    @property
    def place(self) -> Place:
        """The first, for errors."""
        return self.places[0] if self.places else 0

    def said(self, keyword: str) -> Iterator[tuple[Place, Any]]:
        """What each schema that has a keyword says, and where that schema is."""
        for place in self.places:
            fields = self.document.fields(place)
            if keyword in fields:
                yield place, fields[keyword]

    def has(self, *keywords: str) -> bool:
        return any(True for keyword in keywords for _ in self.said(keyword))

    def counts(self, keyword: str) -> list[int]:
        """What is said by a keyword whose values are counts."""
        found: list[int] = []
        for place, value in self.said(keyword):
            if not is_number(value) or value < 0 or value != int(value):
                raise self.document.wrong(place, f"{keyword} {shorten(value)} is no count")
            found.append(int(value))
        return found

    def numbers(self, keyword: str) -> list[int | float]:
        """What is said by a keyword whose values are numbers."""
        found: list[int | float] = []
        for place, value in self.said(keyword):
            if not is_number(value):
                raise self.document.wrong(place, f"{keyword} {shorten(value)} is no number")
            found.append(value)
        return found

    def texts(self, keyword: str) -> list[str]:
        """What is said by a keyword whose values are texts, each once."""
        found: list[str] = []
        for place, value in self.said(keyword):
            if not isinstance(value, str):
                raise self.document.wrong(place, f"{keyword} {shorten(value)} is no text")
            found.append(value)
        return list(dict.fromkeys(found))

    def refused(self, what: str) -> EdgewiseError:
        return self.document.refused(self.place, what)

    def types(self) -> tuple[str, ...] | None:
        """The types that are said, of which a number may be an integer; None where none is."""
        found: set[str] | None = None
        for place, value in self.said("type"):
            some = [value] if isinstance(value, str) else value
            if not isinstance(some, list) or any(each not in TYPES for each in some):
                raise self.document.wrong(place, f"type {shorten(value)} is none")
            here = {*some, *(["integer"] if "number" in some else [])}
            found = here if found is None else found & here
        if found is None:
            return None
        if "number" in found:
            found.discard("integer")
        return tuple(each for each in TYPES if each in found)

    def written_types(self) -> tuple[str, ...]:
        """The types that texts are written of: where none is said those of which something is said,
        and where nothing is, all."""
        types = self.types()
        if types is not None:
            return types
        spoken = tuple(name for name, keywords in OF_TYPE.items() if self.has(*keywords))
        return spoken or tuple(name for name in TYPES if name != "integer")
