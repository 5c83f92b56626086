"""Which keywords of JSON Schema are understood, and what they speak of."""

from __future__ import annotations

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

ANNOTATIONS = frozenset(
    "$schema $comment $defs definitions $anchor $dynamicAnchor title description default examples "
    "example deprecated readOnly writeOnly contentSchema discriminator externalDocs xml".split()
)
"""What asserts nothing, `discriminator` and what follows it being OpenAPI's."""

COMBINING = frozenset("$ref allOf anyOf oneOf".split())
VALUES = frozenset("type enum const".split())
OF_TYPE = {
    "number": frozenset(
        "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split(),
    ),
    "string": frozenset("minLength maxLength pattern format".split()),
    "array": frozenset("items prefixItems additionalItems minItems maxItems uniqueItems".split()),
    "object": frozenset(
        "properties required additionalProperties patternProperties propertyNames minProperties "
        "maxProperties".split()
    ),
}
SAYING = tuple(sorted(frozenset().union(*OF_TYPE.values())))
"""Keywords that speak of one type."""
KNOWN = ANNOTATIONS | COMBINING | VALUES | frozenset().union(*OF_TYPE.values())

FORMATS_WITHOUT_MEANING = frozenset("int32 int64 float double password binary byte".split())
"""Formats of OpenAPI's that hint at how a value is kept."""


def understood(keyword: str) -> bool:
    """Whether a keyword is one of ours, or an extension's, which says nothing of values."""
    return keyword in KNOWN or keyword.startswith("x-")
