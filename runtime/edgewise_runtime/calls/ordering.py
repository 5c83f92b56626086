"""Schemas whose arguments are written in the order of their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise_runtime.grammar.schema.document import MAX_DEPTH

_PROPERTIES = "properties"


def by_name(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same schema, of which `properties` are everywhere in the order of their names, as jinja's
    ``dictsort`` puts them: without regard to the case of ASCII's letters."""
    return {key: _ordered(value, key, MAX_DEPTH) for key, value in schema.items()}


def _ordered(value: Any, above: str, levels: int) -> Any:
    """A value of a schema; what is deeper than any schema may be stays as it is."""
    if levels == 0:
        return value
    if isinstance(value, list):
        return [_ordered(item, "", levels - 1) for item in value]
    if not isinstance(value, Mapping):
        return value
    names = sorted(value, key=_folded) if above == _PROPERTIES else list(value)
    return {name: _ordered(value[name], name, levels - 1) for name in names}


def _folded(name: object) -> str:
    return "".join(c.lower() if c.isascii() else c for c in str(name))
