"""Arguments that are written one by one, each under its name: Python's, and XML-like ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgewise_runtime.calls.format import Spelling
from edgewise_runtime.calls.kinds import kinds_of
from edgewise_runtime.calls.refusing import refused
from edgewise_runtime.calls.respelling import Respelling, respelled
from edgewise_runtime.calls.source import MAX_NAME, NAME
from edgewise_runtime.calls.tool import CalledTool
from edgewise_runtime.calls.typed import reads_back, types_of
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import Choice, Literal, Node, Repeat, Rule, Sequence
from edgewise_runtime.grammar.ranges import Ranges, characters, common, others
from edgewise_runtime.grammar.schema import schema_rules
from edgewise_runtime.grammar.schema.keywords import ANNOTATIONS
from edgewise_runtime.grammar.schema.values import in_order

_UNDERSTOOD = ANNOTATIONS | {"type", "properties", "required", "additionalProperties"}
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_WORDS = {"true": "True", "false": "False", "null": "None"}


@dataclass(frozen=True)
class _Member:
    """An argument: its name, its value as JSON, and the rules of that."""

    name: str
    value: Node
    rules: Mapping[str, Node]
    required: bool


def xml_arguments(tool: CalledTool, _: Spelling, rules: dict[str, Node]) -> Node:
    """Arguments as Qwen3-Coder writes them: each in marks of its own, a text as it is."""
    how = Respelling(avoided=_PARAMETER_END, bare_text=True)
    found: list[Node] = []
    for at, member in enumerate(_members(tool)):
        types = types_of({tool.name: tool.schema}, tool.name, member.name)
        schema = _properties(tool).get(member.name)
        if not reads_back(kinds_of(member.value, member.rules), types, schema):
            raise refused(
                f"The argument {shorten(member.name)} of {shorten(tool.name)} may be a text or "
                "something else, which the notation does not tell apart."
            )
        value = respelled(member.value, member.rules, rules, f"{tool.prefix}x{at}_", how)
        begin = Literal(f"{_PARAMETER}{member.name}>\n")
        node = Sequence((begin, value, Literal(f"\n{_PARAMETER_END}\n")))
        found.append(node if member.required else Repeat(node, 0, 1))
    return Sequence(tuple(found))


def python_arguments(tool: CalledTool, _: Spelling, rules: dict[str, Node]) -> Node:
    """Arguments as Python's keywords, in parentheses."""
    how = Respelling(escape=_python_escape, words=_WORDS)
    members = _members(tool)
    nodes: list[Node] = []
    for at, member in enumerate(members):
        value = respelled(member.value, member.rules, rules, f"{tool.prefix}x{at}_", how)
        nodes.append(Sequence((Literal(f"{member.name}="), value)))
    following: Node = Sequence(())
    choices: list[Node] = []
    for at in range(len(members) - 1, -1, -1):
        if members[at].required:
            choices = []
        choices.insert(0, Sequence((nodes[at], following)))
        more = Sequence((Literal(", "), nodes[at]))
        rule = f"{tool.prefix}after{at}"
        rules[rule] = Sequence((more if members[at].required else Repeat(more, 0, 1), following))
        following = Rule(rule)
    if not any(member.required for member in members):
        choices.append(Sequence(()))
    return Sequence((Literal("("), Choice(tuple(choices)), Literal(")")))


def _members(tool: CalledTool) -> list[_Member]:
    """The arguments of a tool, in the order of its schema.

    Raises:
        UnsupportedError: ``unsupported.tool_choice`` for arguments that are more than a list of
            names, or with a name that the notation has no place for.
    """
    for keyword, value in tool.schema.items():
        closed = keyword != "additionalProperties" or value is False
        if not closed or (keyword not in _UNDERSTOOD and not keyword.startswith("x-")):
            raise refused(
                f"The arguments of {shorten(tool.name)} are more than names and their values: "
                f"there is {shorten(keyword)}."
            )
    if tool.schema.get("type", "object") != "object":
        raise refused(f"The arguments of {shorten(tool.name)} are no object.")
    required = tool.schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise refused(
            f"What {shorten(tool.name)} requires is {shorten(required)}, no list of names."
        )
    properties = _properties(tool)
    members: list[_Member] = []
    for name in dict.fromkeys([*in_order(properties), *required]):
        if len(name) > MAX_NAME or not NAME.fullmatch(name):
            raise refused(
                f"An argument of {shorten(tool.name)} is called {shorten(name)}, which a notation "
                "without quotes cannot write."
            )
        rules: dict[str, Node] = {}
        at = ("properties", name) if name in properties else None
        schema = tool.schema if at else True
        value = schema_rules(schema, rules, tool.prefix, at or ())
        members.append(_Member(name, value, rules, name in required))
    return members


def _properties(tool: CalledTool) -> Mapping[str, object]:
    properties = tool.schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise refused(
            f"The properties of {shorten(tool.name)} are {shorten(properties)}, no object."
        )
    return properties


def _python_escape(ranges: Ranges) -> Node:
    """Characters inside a Python string: as in JSON, but for the two that have another escape."""
    rest = common(ranges, others(characters("\b\f")))
    spelled: list[Node] = [json_escape(rest)] if rest else []
    for character in "\b\f":
        if common(ranges, characters(character)):
            spelled.append(Literal(f"\\x{ord(character):02x}"))
    return spelled[0] if len(spelled) == 1 else Choice(tuple(spelled))
