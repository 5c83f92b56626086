"""What answers are held to: made on the thread that asks, and kept for others that ask the same."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import Any, Literal

from edgewise.held import Free, Held, Thoughtful
from edgewise.response_format import ResponseFormat
from edgewise.thinking import Thinking
from edgewise.wanted import Wanted
from edgewise_runtime.calls import Format
from edgewise_runtime.calls.grammar import call_grammar
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.schema import lower_json_object, lower_schema
from edgewise_runtime.grammar.triggered import Triggered
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.token_bytes import token_bytes

MOST_KEPT = 32
"""Matchers that are kept, each with the masks that it has made."""
_MOST_VOCABULARIES = 4


class Constraints:
    """Makes what answers are held to; safe to use from several threads.

    Args:
        size: tokens of the model.
        ends: tokens that end answers.
    """

    def __init__(self, tokenizer: Tokenizer, size: int, ends: Collection[int]) -> None:
        self._tokenizer = tokenizer
        self._size = size
        self._ends = frozenset(ends)
        self._lock = Lock()
        self._made: OrderedDict[tuple[object, ...], Held] = OrderedDict()
        self._vocabularies: dict[tuple[str, ...], Vocabulary] = {}

    def of(self, wanted: Wanted, form: Format, thinking: Thinking) -> Held | Thoughtful | None:
        """An answer of which this is wanted; None where it is free.

        Raises as `of_format` and `of_calls` do.
        """
        inner: Held | None = None
        if wanted.format is not None:
            inner = self.of_format(wanted.format, thinking)
        elif wanted.callable:
            inner = self.of_calls(wanted, form, thinking)
        # What may be called is waited for in all of a text, but a thought may speak of calls.
        may_call = inner is not None and wanted.choice.mode == "auto"
        apart = may_call and bool(form.thoughts) and (thinking.may or thinking.opened)
        if wanted.budget is None and not apart:
            return inner
        return self.watched(inner, thinking, budget=wanted.budget, apart=apart)

    def of_format(self, wanted: ResponseFormat, thinking: Thinking) -> Held:
        """An answer of a format, perhaps after a thought.

        Raises:
            InputError: what is wrong with a schema, an expression or a grammar.
            UnsupportedError: ``unsupported.schema`` and its like, for what is refused by name;
                ``unsupported.constraint`` for a tokenizer that cannot be used.
        """
        schema = "" if wanted.schema is None else json.dumps(wanted.schema)
        key = (wanted.kind, schema, wanted.text, wanted.syntax, thinking)
        vocabulary = self._vocabulary(thinking.shown)
        return self._kept(key, lambda: Matcher(thinking.before(grammar_of(wanted)), vocabulary))

    def watched(
        self, inner: Held | None, thinking: Thinking, *, budget: int | None, apart: bool
    ) -> Thoughtful:
        """The same answer with its thought watched, see `Thoughtful`."""
        closing = self._tokenizer.encode(thinking.closing, add_special_tokens=False)
        return Thoughtful(
            inner or Free(self._size),
            self._vocabulary(thinking.shown),
            marks=(thinking.open.encode(), thinking.close.encode()),
            opened=thinking.opened,
            closing=closing,
            budget=budget,
            apart=apart,
        )

    def of_calls(self, wanted: Wanted, form: Format, thinking: Thinking) -> Held | None:
        """An answer that may or has to call tools.

        None where it may, and the format has no mark after which nothing but a call is meant, or
        cannot write what the tools' schemas say: such calls are read as they come.

        Raises as `call_grammar` does for those that have to come.
        """
        may = wanted.choice.mode == "auto"
        if may and not form.triggers:
            return None
        tools = {tool.name: tool.parameters for tool in wanted.callable}
        key = (form.name, json.dumps(tools), wanted.choice, thinking)
        vocabulary = self._vocabulary(thinking.shown)
        if not may:
            name = wanted.choice.name
            return self._kept(key, lambda: _must_call(form, tools, name, thinking, vocabulary))
        try:
            return self._kept(key, lambda: _may_call(form, tools, vocabulary))
        except UnsupportedError:
            return None

    def _vocabulary(self, shown: tuple[str, ...]) -> Vocabulary:
        with self._lock:
            found = self._vocabularies.get(shown)
        if found is None:
            table = token_bytes(self._tokenizer, self._size, shown=shown, without=self._ends)
            found = Vocabulary(table)
            with self._lock:
                if len(self._vocabularies) == _MOST_VOCABULARIES:
                    self._vocabularies.pop(next(iter(self._vocabularies)))
                self._vocabularies[shown] = found
        return found

    def _kept(self, key: tuple[object, ...], make: Callable[[], Matcher]) -> Held:
        """What is kept by a key, or is made now."""
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
        # Outside the lock: others may go on, and at worst make the same at the same time.
        made = Held(make(), self._encode)
        with self._lock:
            self._made[key] = made
            while len(self._made) > MOST_KEPT:
                self._made.popitem(last=False)
        return made

    def _encode(self, text: str) -> list[int]:
        """The tokens of a text that goes on one: some tokenizers put a space before the first."""
        newline = self._tokenizer.encode("\n", add_special_tokens=False)
        ids = self._tokenizer.encode(f"\n{text}", add_special_tokens=False)
        return ids[len(newline) :] if ids[: len(newline)] == newline else ids


_Schemas = Mapping[str, Mapping[str, Any]]


def _must_call(
    form: Format, tools: _Schemas, name: str | None, thinking: Thinking, vocabulary: Vocabulary
) -> Matcher:
    """Calls that have to come: of the tool with this name, or of any."""
    mode: Literal["required", "named"] = "named" if name else "required"
    made = call_grammar(form, tools, choice=mode, name=name)
    # Where the format tells thoughts itself, its grammar of calls has them, too.
    return Matcher(thinking.before(made.grammar) if form.thoughts else made.grammar, vocabulary)


def _may_call(form: Format, tools: _Schemas, vocabulary: Vocabulary) -> Triggered:
    """Free text, and calls from each trigger on."""
    made = call_grammar(form, tools, choice="auto")
    triggers = [trigger.encode() for trigger in made.triggers]
    return Triggered(Matcher(made.grammar, vocabulary), triggers, made.after, vocabulary)


def grammar_of(wanted: ResponseFormat) -> Grammar:
    """The grammar of a format's texts. Raises as `Constraints.of_format` does."""
    match wanted.kind:
        case "json_object":
            return lower_json_object()
        case "json_schema":
            return lower_schema(wanted.schema)
        case "regex":
            return Grammar({"root": lower_regex(wanted.text)}, "root")
        case "grammar":
            return lower_grammar(wanted.text, wanted.syntax)
