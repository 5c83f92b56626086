"""What a config.json may ask for and no kernel computes: found by its keys, refused by its name.

Each trait is one entry of a table: `rope.TRAITS` and `shape.SHAPE`, which are refused where a
family reads the rest, and `elsewhere.TRAITS`, which only other families have. docs/supported.md is
made from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from edgewise_compiler.models.fields import ConfigFields
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.format.reading import shorten

PAGE = "docs/supported.md"
"""Where people read what is supported; errors point there."""

Finder = Callable[[ConfigFields], str | None]
"""What a configuration asks for, such as ``num_experts is 8``; None where it does not.

Raises CheckpointError for a value of the wrong type, where that says more."""


@dataclass(frozen=True)
class Trait:
    """Something that models have and edgewise does not.

    Attributes:
        name: what it is, in words that follow "Not implemented:".
        keys: of config.json, by which it is found; none where an architecture implies it.
        have: what there is, in words that follow "Use a model with".
        code: of the error.
        find: whether a configuration asks for it.
        gguf: keys of a GGUF file that say so, after the architecture's name.
    """

    name: str
    keys: tuple[str, ...]
    have: str
    code: str
    find: Finder
    gguf: tuple[str, ...] = ()


def said(key: str, value: object) -> str:
    """A key and its value, as messages quote them."""
    return f"{key} is {shorten(value, 40)}"


def other(*keys: str, neutral: tuple[object, ...] = (0,)) -> Finder:
    """Finds the first of ``keys`` that is set to anything else than ``neutral``."""

    def find(fields: ConfigFields) -> str | None:
        found = (key for key in keys if fields.has(key) and fields.values[key] not in neutral)
        return next((said(key, fields.values[key]) for key in found), None)

    return find


def refuse(traits: Iterable[Trait], fields: ConfigFields) -> None:
    """Raise UnsupportedError for the first of ``traits`` that a configuration asks for."""
    for trait in traits:
        found = trait.find(fields)
        if found is not None:
            raise UnsupportedError(
                f"Not implemented: {trait.name} ({found}).",
                remedy=f"Use a model with {trait.have}; see {PAGE}.",
                code=trait.code,
            )


def asked_for(traits: Iterable[Trait], fields: ConfigFields) -> Iterator[str]:
    """Every one of ``traits`` that a configuration asks for, with its key and value.

    Nothing is known of the configuration, so values of other types than ours mean nothing.
    """
    for trait in traits:
        with suppress(CheckpointError):
            found = trait.find(fields)
            if found is not None:
                yield f"{trait.name} ({found})"
