"""What a model has to write where it calls tools: a grammar of each format's calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edgewise_runtime.calls.arguments import arguments_of
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.refusing import refused
from edgewise_runtime.calls.source import MAX_NAME, NAME
from edgewise_runtime.calls.tool import CalledTool
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar import nodes
from edgewise_runtime.grammar.avoiding import texts_without
from edgewise_runtime.grammar.escapes import plain
from edgewise_runtime.grammar.nodes import Choice, Grammar, Node, Repeat, Rule, Sequence, simplified
from edgewise_runtime.grammar.ranges import EVERY
from edgewise_runtime.grammar.schema.values import in_order

_PRINT = "print"
_ALPHANUMERIC = nodes.Chars(((48, 57), (65, 90), (97, 122)))


@dataclass(frozen=True)
class CallGrammar:
    """The texts of calls.

    Attributes:
        grammar: of what follows a trigger; without triggers, of the answer, its thoughts left out.
        triggers: texts after which the grammar holds. None with choices other than ``auto``, and
            where a format has no mark that tells a call.
        after: ``free`` where text may follow the calls, and further triggers; else ``end``.
    """

    grammar: Grammar
    triggers: tuple[str, ...]
    after: Literal["free", "end"]


def call_grammar(
    form: Format,
    tools: Mapping[str, Mapping[str, Any]],
    *,
    choice: Literal["auto", "required", "named"],
    name: str | None = None,
    parallel: bool = True,
) -> CallGrammar:
    """The grammar of the calls that an answer may have, or has to be.

    Whatever it allows is read by the format's parser as calls of tools, with arguments that are
    valid under the tool's schema.

    Args:
        tools: JSON schemas of the arguments of tools, by name.
        choice: with ``auto`` a call may follow each trigger, with ``required`` the answer is one
            call or several, with ``named`` it is one call of the tool `name`.
        parallel: there may be several calls.

    Raises:
        InputError: ``input.tool_choice`` where there is no such tool; ``input.schema``.
        UnsupportedError: ``unsupported.tool_choice`` for names and schemas that the format cannot
            write; ``unsupported.schema``.
    """
    known = [name] if choice == "named" and name is not None else in_order(tools)
    if not known or any(each not in tools for each in known):
        raise InputError(
            f"There is no tool {shorten(name)} to call." if known else "There is no tool to call.",
            remedy="Pass tools.",
            code="input.tool_choice",
        )
    spelling = form.spelling
    rules: dict[str, Node] = {"root": Sequence(())}
    rules["call"] = _any_call(form, {each: tools[each] for each in known}, rules)
    free = choice == "auto" and spelling.after == "free" and parallel and form.triggers != ()
    again = parallel and choice != "named" and not free
    start = spelling.first + spelling.begin
    triggers = form.triggers if choice == "auto" else ()
    begins = tuple(trigger for trigger in triggers if start.startswith(trigger))
    # After any of these texts the same has to follow: of those that a call begins with, only one.
    triggers = begins[:1] or triggers
    parts = _calls(spelling, start.removeprefix(begins[0]) if begins else start, again)
    if choice != "auto" and spelling.thought:
        parts = [_thought(spelling.thought), *parts]
    rules["root"] = simplified(Sequence(tuple(parts)))
    return CallGrammar(Grammar(rules, "root"), triggers, "free" if free else "end")


def _calls(spelling: Spelling, start: str, again: bool) -> list[Node]:
    """Calls from the text on that the first begins with."""
    call = Rule("call")
    parts: list[Node] = [*_literal(start), call]
    if again:
        between = _literal(spelling.between + spelling.begin)
        parts.append(Repeat(Sequence((*between, call)), 0, None))
    parts += _literal(spelling.last)
    if spelling.close:
        parts.append(Repeat(nodes.Literal(spelling.close), 0, 1))
    return parts


def _literal(text: str) -> tuple[Node, ...]:
    """A text, perhaps empty, as items of a sequence."""
    return (nodes.Literal(text),) if text else ()


def _any_call(form: Format, tools: Mapping[str, Mapping[str, Any]], rules: dict[str, Node]) -> Node:
    """A call of one of some tools, from its name on."""
    spelling = form.spelling
    found: list[Node] = []
    for at, (name, schema) in enumerate(tools.items()):
        wrong = len(name) > MAX_NAME or not NAME.fullmatch(name)
        if wrong or (spelling.arguments == "python" and name == _PRINT):
            raise refused(f"A tool is called {shorten(name)}, which {form.name} cannot write.")
        arguments = arguments_of(CalledTool(name, schema, f"t{at}_"), spelling, rules)
        begin = (nodes.Literal(name), *_id(spelling.id), *_literal(spelling.named))
        found.append(simplified(Sequence((*begin, arguments, *_literal(spelling.end)))))
    return Choice(tuple(found)) if len(found) > 1 else found[0]


def _id(mark: str) -> tuple[Node, ...]:
    """An id that may be given, where there is a mark for it."""
    if not mark:
        return ()
    return (Repeat(Sequence((nodes.Literal(mark), Repeat(_ALPHANUMERIC, 9, 9))), 0, 1),)


def _thought(marks: tuple[str, str, str]) -> Node:
    """A thought that may come first."""
    begin, avoided, end = marks
    text = texts_without(avoided, EVERY, plain)
    return Repeat(Sequence((nodes.Literal(begin), text, nodes.Literal(end))), 0, 1)
