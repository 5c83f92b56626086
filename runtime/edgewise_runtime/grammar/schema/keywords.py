"""Which keywords of JSON Schema are understood, and what they speak of."""

from __future__ import annotations

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

ANNOTATIONS = frozenset(
    "$schema $comment $defs definitions $anchor $dynamicAnchor title description default examples "
    "example deprecated readOnly writeOnly contentSchema discriminator externalDocs xml".split()
)
"""What asserts nothing, `discriminator` and what follows it being OpenAPI's."""

REFUSED = frozenset(
    "not if then else contains minContains maxContains unevaluatedItems unevaluatedProperties "
    "dependencies dependentRequired dependentSchemas $dynamicRef $recursiveRef contentEncoding "
    "contentMediaType extends disallow divisibleBy".split()
)
"""What asserts something in a draft, and is not supported. All else that is not named here asserts
nothing either, as the specification has it of keywords that nobody knows."""

NAMES = ("$id", "id")
"""Names of schemas, against which references below them are resolved."""

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

REFUSED_FORMATS = frozenset(
    "idn-email idn-hostname iri iri-reference regex relative-json-pointer uri-reference "
    "uri-template".split()
)
"""Formats that the specification has, and that are not supported. Others that `formats` does not
have assert nothing, as the specification has it of formats that nobody knows."""
