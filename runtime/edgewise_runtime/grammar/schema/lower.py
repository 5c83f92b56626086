"""JSON Schema lowered to a grammar: every text of it is JSON, and valid under the schema.

Texts are canonical: on one line, with ``", "`` and ``": "`` as ``json.dumps`` writes them, names in
the order of `properties`, characters spelled as `escapes` says, integers without a point. Not every
valid value is written: docs/decisions/0046-schemas.md says which are not.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgewise_runtime.grammar.endings import left_recursive_rule
from edgewise_runtime.grammar.nodes import Grammar, Node
from edgewise_runtime.grammar.schema.document import Document
from edgewise_runtime.grammar.schema.ended import ended
from edgewise_runtime.grammar.schema.lowering import Lowering
from edgewise_runtime.grammar.schema.shape import whole


def lower_schema(schema: object, *, prefix: str = "") -> Grammar:
    """The grammar of a schema's values.

    Args:
        schema: a schema as JSON is read: objects, lists, texts, numbers, booleans and None.
        prefix: what names of rules begin with; a letter first, then letters, digits and ``_``.

    Raises:
        InputError: ``input.schema`` for what is no schema, or is too large.
        UnsupportedError: ``unsupported.schema`` for what is refused by name, with its place, and
            for a schema that nothing is valid under.
    """
    rules: dict[str, Node] = {}
    node = schema_rules(schema, rules, prefix)
    root = f"{prefix}root"
    return Grammar({root: node, **rules}, root)


def lower_json_object() -> Grammar:
    """The grammar of any JSON object."""
    return lower_schema({"type": "object"})


def schema_rules(
    schema: object, rules: dict[str, Node], prefix: str, at: Iterable[str] = ()
) -> Node:
    """The node of a schema's values, for a place in a larger grammar.

    Args:
        rules: the larger grammar's, to which those are added that the node needs.
        at: names and indices that lead to the schema within `schema`, to which it may refer.

    Raises:
        InputError: as `lower_schema`.
        UnsupportedError: as `lower_schema`.
    """
    document = Document(schema)
    lowering = Lowering(document, rules, prefix)
    node = lowering.lower(whole(document.below(0, *at)))
    made = None if node is None else ended(node, lowering.rules)
    if made is None:
        raise document.refused(0, "a schema that nothing is valid under")
    root, found = made
    if left_recursive_rule({"": root, **found}) is not None:
        raise document.refused(0, "a schema that refers to itself, nothing between,")
    rules.update(found)
    return root
