"""What answers are held to: made on the thread that asks, and kept for others that ask the same."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection
from threading import Lock

from edgewise.held import Budgeted, Free, Held
from edgewise.response_format import ResponseFormat
from edgewise.thinking import Thinking
from edgewise.wanted import Wanted
from edgewise_runtime.calls import Format
from edgewise_runtime.calls.grammar import call_grammar
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.schema import lower_json_object, lower_schema
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
        self._matchers: OrderedDict[tuple[object, ...], Matcher] = OrderedDict()
        self._vocabularies: dict[tuple[str, ...], Vocabulary] = {}

    def of(self, wanted: Wanted, form: Format, thinking: Thinking) -> Held | None:
        """An answer of which this is wanted; None where it is free, but for its thought.

        Raises as `of_format` and `of_calls` do.
        """
        if wanted.format is not None:
            return self.of_format(wanted.format, thinking)
        return self.of_calls(wanted, form, thinking) if wanted.callable else None

    def of_format(self, wanted: ResponseFormat, thinking: Thinking) -> Held:
        """An answer of a format, perhaps after a thought.

        Raises:
            InputError: what is wrong with a schema, an expression or a grammar.
            UnsupportedError: ``unsupported.schema`` and its like, for what is refused by name;
                ``unsupported.constraint`` for a tokenizer that cannot be used.
        """
        schema = "" if wanted.schema is None else json.dumps(wanted.schema, sort_keys=False)
        key = (wanted.kind, schema, wanted.text, wanted.syntax, thinking)
        vocabulary = self._vocabulary(thinking.shown)
        matcher = self._kept(key)
        if matcher is None:
            matcher = Matcher(thinking.before(grammar_of(wanted)), vocabulary)
            self._keep(key, matcher)
        return Held(matcher, vocabulary, self._encode)

    def budgeted(self, inner: Held | None, thinking: Thinking, budget: int) -> Budgeted:
        """The same answer after a thought of so many tokens at most."""
        vocabulary = self._vocabulary(thinking.shown)
        return Budgeted(
            inner or Free(self._size),
            vocabulary,
            marks=(thinking.open.encode(), thinking.close.encode()),
            opened=thinking.opened,
            budget=budget,
            closing=self._tokenizer.encode(thinking.closing, add_special_tokens=False),
        )

    def of_calls(self, wanted: Wanted, form: Format, thinking: Thinking) -> Held | None:
        """An answer that has to call tools; None where it only may.

        Raises as `call_grammar` does.
        """
        mode = wanted.choice.mode
        if mode not in ("required", "named"):
            return None
        tools = {tool.name: tool.parameters for tool in wanted.callable}
        key = (form.name, json.dumps(tools), wanted.choice, thinking)
        vocabulary = self._vocabulary(thinking.shown)
        matcher = self._kept(key)
        if matcher is None:
            made = call_grammar(form, tools, choice=mode, name=wanted.choice.name)
            # Harmony's grammar has its thoughts in it.
            grammar = thinking.before(made.grammar) if form.thoughts else made.grammar
            matcher = Matcher(grammar, vocabulary)
            self._keep(key, matcher)
        return Held(matcher, vocabulary, self._encode)

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

    def _kept(self, key: tuple[object, ...]) -> Matcher | None:
        with self._lock:
            if key in self._matchers:
                self._matchers.move_to_end(key)
            return self._matchers.get(key)

    def _keep(self, key: tuple[object, ...], matcher: Matcher) -> None:
        with self._lock:
            self._matchers[key] = matcher
            while len(self._matchers) > MOST_KEPT:
                self._matchers.popitem(last=False)

    def _encode(self, text: str) -> list[int]:
        """The tokens of a text that goes on one: some tokenizers put a space before the first."""
        newline = self._tokenizer.encode_plainly("\n")
        ids = self._tokenizer.encode_plainly(f"\n{text}")
        return ids[len(newline) :] if ids[: len(newline)] == newline else ids


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
