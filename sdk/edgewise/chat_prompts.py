"""Prompts of conversations, by a model's own chat template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from edgewise.prompt import too_long
from edgewise.reading import opens_thought
from edgewise.reasoning import Reasoning, variables_of
from edgewise.request import Asked
from edgewise.tools import ToolLike, described
from edgewise.wanted import Wanted
from edgewise.window import Turns
from edgewise_runtime.calls import Format, format_of
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text import ChatTemplate, ControlTokens, Tokenizer
from edgewise_runtime.text.segments import SegmentCache
from edgewise_runtime.text.template import Message, missing_template
from edgewise_runtime.text.tool_calls import has_calls, with_calls

_MOST_KEPT = 64
"""Kinds of reasoning whose variables are kept."""


class ChatPrompts:
    """Makes prompts of conversations; safe to use from several threads."""

    def __init__(self, bundle: Bundle, tokenizer: Tokenizer) -> None:
        """Read the bundle's template, if it has one. Raises as `ChatTemplate.from_bundle`."""
        self._name = bundle.name
        self._tokenizer = tokenizer
        self._segments = SegmentCache(tokenizer)
        self._template = ChatTemplate.from_bundle(bundle, tokenizer.special_tokens)
        self._controls = ControlTokens(
            tokenizer,
            self._segments.encode,
            source=self.source,
            written=self._plainly,
        )
        self._variables: dict[Reasoning, dict[str, Any]] = {}

    @cached_property
    def form(self) -> Format:
        """How the template says that thoughts and calls are written."""
        return format_of(self.source)

    def thinks(self, form: Format) -> bool:
        """Whether the template knows of thoughts as this format writes them."""
        return not form.thoughts or form.thoughts[0][0] in self.source

    @property
    def source(self) -> str:
        """The text of the chat template; empty where there is none."""
        return "" if self._template is None else self._template.source

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Iterable[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the prompt text of a conversation."""
        template = self._chat_template()
        told = self._told(messages)
        return template.render(told, tools=described(tools), **(variables or {}))

    def asked(
        self, messages: Sequence[Message], wanted: Wanted, variables: Mapping[str, Any] | None
    ) -> str:
        """The prompt text of a conversation of whose next turn this is wanted.

        Raises as `turns` does.
        """
        shown = wanted.callable or None
        variables = {**self._switches(wanted.reasoning), **(variables or {})}
        return self.render(messages, tools=shown, variables=variables)

    def turns(
        self,
        messages: Sequence[Message],
        wanted: Wanted,
        variables: Mapping[str, Any] | None,
        asked: Asked,
        context: int,
    ) -> tuple[Turns, bool]:
        """The next turn of a conversation, and whether its prompt begins a thought.

        Raises InputError for messages the template refuses, UnsupportedError
        ``unsupported.reasoning``.
        """
        template = self._chat_template()
        # Of tools that may not be called a model is told nothing.
        shown = described(wanted.callable) if wanted.callable else None
        variables = {**self._switches(wanted.reasoning), **(variables or {})}
        # Before anything is hidden: what is no token in JSON text may be one in what it says.
        messages = self._told(messages)
        as_text = asked.special_tokens != "control"
        if as_text:
            messages = self._controls.hide(messages)
            shown, variables = self._controls.hide_in(shown), self._controls.hide_in(variables)
        form = wanted.form or self.form
        opened: list[bool] = []

        def encode(kept: Sequence[Message]) -> list[int]:
            text = template.render(kept, tools=shown, **variables)
            opened.append(opens_thought(form, text))
            if self._exceeds(text, context):
                raise too_long(text, context)
            read = self._controls.encode if as_text else self._segments.encode
            return [*read(text), *asked.begun]

        return Turns(messages, encode), opened[0]

    def _switches(self, reasoning: Reasoning | None) -> dict[str, Any]:
        """The template's variables that ask for what is wanted of thoughts."""
        if reasoning is None:
            return {}
        found = self._variables.get(reasoning)
        if found is None:
            template = self._chat_template()
            found = variables_of(
                reasoning, lambda messages, given: template.render(messages, **given)
            )
            if len(self._variables) < _MOST_KEPT:
                self._variables[reasoning] = found
        return found

    def _chat_template(self) -> ChatTemplate:
        if self._template is None:
            raise missing_template(self._name)
        return self._template

    def _told(self, messages: Sequence[Message]) -> list[Message]:
        """Messages whose calls of tools are as the template expects them."""
        if not has_calls(messages):
            return list(messages)
        return with_calls(messages, self._chat_template().call_form)

    def _plainly(self) -> str:
        """What the chat template makes of a plain conversation; nothing where it refuses it."""
        roles = ("user", "assistant", "user")
        try:
            return self.render([{"role": role, "content": "?"} for role in roles])
        except EdgewiseError:
            return ""

    def _exceeds(self, text: str, context: int) -> bool:
        """Whether the text of a prompt is too long for the context by its characters."""
        exceeds = self._tokenizer.exceeds
        # What is hidden may be longer than what it stands for.
        return exceeds(text, context) and exceeds(self._controls.shown(text), context)
