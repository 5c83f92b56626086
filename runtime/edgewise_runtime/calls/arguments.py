"""The arguments of a tool's call as each notation writes them: nodes that follow its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgewise_runtime.calls.format import Spelling
from edgewise_runtime.calls.members import python_arguments, xml_arguments
from edgewise_runtime.calls.ordering import by_name
from edgewise_runtime.calls.refusing import refused
from edgewise_runtime.calls.respelling import Respelling, respelled
from edgewise_runtime.calls.tool import CalledTool
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.escapes import plain
from edgewise_runtime.grammar.nodes import Node
from edgewise_runtime.grammar.schema import schema_rules


def arguments_of(tool: CalledTool, spelling: Spelling, rules: dict[str, Node]) -> Node:
    """The node of a tool's arguments.

    Args:
        rules: those that the node needs are added.

    Raises:
        InputError: ``input.schema`` for what is no schema.
        UnsupportedError: ``unsupported.schema`` for what no grammar is made of;
            ``unsupported.tool_choice`` for what the notation cannot write.
    """
    return _NOTATIONS[spelling.arguments](tool, spelling, rules)


def _json(tool: CalledTool, _: Spelling, rules: dict[str, Node]) -> Node:
    return schema_rules(_of_objects(tool), rules, tool.prefix)


def _gemma(tool: CalledTool, spelling: Spelling, rules: dict[str, Node]) -> Node:
    how = Respelling(
        quote=spelling.quote,
        escape=plain,
        avoided=spelling.quote,
        words={", ": ",", ": ": ":"},
        bare_keys=True,
    )
    given: dict[str, Node] = {}
    # Gemma's templates sort the arguments of calls.
    node = schema_rules(by_name(_of_objects(tool)), given, tool.prefix)
    return respelled(node, given, rules, tool.prefix, how)


def _of_objects(tool: CalledTool) -> Mapping[str, object]:
    """A tool's schema without values that are no objects: arguments are always one."""
    said = tool.schema.get("type", "object")
    if "object" not in (said if isinstance(said, list) else [said]):
        raise refused(
            f"The arguments of {shorten(tool.name)} are of type {shorten(said)}, and no object."
        )
    return {**tool.schema, "type": "object"}


_NOTATIONS: Mapping[str, Callable[[CalledTool, Spelling, dict[str, Node]], Node]] = {
    "json": _json,
    "gemma": _gemma,
    "xml": xml_arguments,
    "python": python_arguments,
}
