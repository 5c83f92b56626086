"""Chat templates: messages to prompt text, rendered as transformers renders them.

A template comes with a checkpoint, so it is foreign code: it sees plain JSON values only, its
source, its work, its memory and its output are bounded (`jinja`), and whatever it raises becomes
an EdgewiseError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from edgewise_runtime.errors import CheckpointError, InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text.files import TextFiles
from edgewise_runtime.text.jinja import (
    Template,
    TemplateError,
    TemplateLimitError,
    compile_template,
)
from edgewise_runtime.text.tool_calls import CallForm, call_form

MAX_SOURCE_BYTES = 1 << 20
MAX_DEPTH = 64
"""Lists and dicts within one another that a message may have."""
MAX_INTEGER_BITS = 256
MAX_VALUES = 1 << 18
"""Values that a conversation may have, everything nested counted."""
_REASONING = ("reasoning_content", "thinking", "reasoning")

Message = Mapping[str, Any]


class ChatTemplate:
    """The chat templates of one checkpoint: a default one and perhaps one for tools."""

    def __init__(
        self,
        sources: str | Mapping[str, str],
        special_tokens: Mapping[str, str] | None = None,
        *,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Compile `sources`: one template, or several by name (``default``, ``tool_use``).

        `special_tokens` are the names a template may use, such as ``bos_token``; `clock` is what
        `strftime_now` reads. Raises CheckpointError for a template that is too large or wrong.
        """
        named = {"default": sources} if isinstance(sources, str) else dict(sources)
        self._clock = clock
        self.source = "\0".join(named.values())
        """All of them, for those who look for a text in them."""
        self._special_tokens = dict(special_tokens or {})
        self._templates = {name: _compile(name, source) for name, source in named.items()}

    @classmethod
    def from_folder(
        cls, folder: Path, special_tokens: Mapping[str, str] | None = None
    ) -> ChatTemplate | None:
        """`from_files` of a checkpoint's folder."""
        return cls.from_files(TextFiles.of_folder(folder), special_tokens)

    @classmethod
    def from_bundle(
        cls, bundle: Bundle, special_tokens: Mapping[str, str] | None = None
    ) -> ChatTemplate | None:
        """`from_files` of those that a bundle lists."""
        return cls.from_files(TextFiles.of_bundle(bundle), special_tokens)

    @classmethod
    def from_files(
        cls, files: TextFiles, special_tokens: Mapping[str, str] | None = None
    ) -> ChatTemplate | None:
        """Load chat_template.jinja, or else what tokenizer_config.json holds, or else None."""
        source = files.text("chat_template.jinja", limit=MAX_SOURCE_BYTES)
        if source is not None:
            return cls(source, special_tokens)
        config = files.object("tokenizer_config.json").get("chat_template")
        named: dict[str, str] = {}
        if isinstance(config, str):
            named["default"] = config
        elif isinstance(config, list):
            try:
                named |= {str(item["name"]): str(item["template"]) for item in config}
            except (TypeError, KeyError) as error:
                where = files.folder / "tokenizer_config.json"
                raise CheckpointError(
                    f"The list of chat templates in {where} has an entry without a name and a "
                    f"template.",
                    code="checkpoint.template",
                ) from error
        return cls(named, special_tokens) if named else None

    @cached_property
    def call_form(self) -> CallForm:
        """How earlier calls of tools have to be written for it, see `with_calls`."""
        return call_form(lambda messages, tools: self.render(messages, tools=tools))

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """Return the prompt text of a conversation.

        Args:
            messages: dicts with a ``role`` and a ``content``; keys whose value is None are dropped.
            tools: JSON schemas of callable functions, for templates that show them.
            add_generation_prompt: end with the header of the answer to come.
            variables: whatever else the template reads, such as ``enable_thinking``.

        Raises InputError for messages the template refuses or that make too long a text.
        """
        template = self._select(with_tools=tools is not None)
        plain = _Plain()
        given = {**variables, "tools": tools, "documents": None}
        context = self._special_tokens | {name: plain.value(value) for name, value in given.items()}
        context["messages"] = _conversation(messages, plain)
        context["add_generation_prompt"] = add_generation_prompt
        try:
            return template.render(context, self._clock(), plain.characters)
        except TemplateError as error:
            stopped = isinstance(error, TemplateLimitError)
            raise InputError(
                f"The model's chat template refuses these messages: {_shortened(str(error))}.",
                remedy="Shorten the conversation, or compare chat_template.jinja with the one the "
                "model was published with."
                if stopped
                else "Check the order of the roles and that every content is text.",
                code="input.template",
            ) from error

    def _select(self, *, with_tools: bool) -> Template:
        if with_tools and "tool_use" in self._templates:
            return self._templates["tool_use"]
        if "default" not in self._templates:
            raise CheckpointError(
                f"The model has chat templates named {sorted(self._templates)}, none is 'default'.",
                remedy="Write the one to use into the folder's chat_template.jinja.",
                code="checkpoint.template",
            )
        return self._templates["default"]


def missing_template(name: str) -> InputError:
    """Return the error of a chat with a model that has no template."""
    return InputError(
        f"{name} has no chat template, so its chat format is not known.",
        remedy="Put a chat_template.jinja into the checkpoint folder and compile again, or give "
        "the prompt as text with generate().",
        code="input.no_template",
    )


def _compile(name: str, source: str) -> Template:
    if len(source) > MAX_SOURCE_BYTES:
        raise CheckpointError(
            f"The chat template {name!r} has {len(source):,} characters; at most "
            f"{MAX_SOURCE_BYTES:,} are accepted.",
            code="checkpoint.template",
        )
    try:
        return compile_template(source)
    except TemplateError as error:
        raise CheckpointError(
            f"The chat template {name!r} is not valid Jinja, or not what is supported of it: "
            f"{_shortened(str(error))}.",
            remedy="Compare chat_template.jinja with the one the model was published with.",
            code="checkpoint.template",
        ) from error


def _shortened(said: str) -> str:
    return said if len(said) <= 500 else f"{said[:497]}..."


def _conversation(messages: Sequence[Message], plain: _Plain) -> list[dict[str | int, Any]]:
    if not messages:
        raise InputError(
            "The conversation is empty.",
            remedy='Pass at least one message, such as {"role": "user", "content": "Hello"}.',
            code="input.messages",
        )
    conversation = []
    for message in messages:
        if not isinstance(message, Mapping):
            raise InputError(
                f"{message!r} is not a message.",
                remedy='A message is a dict such as {"role": "user", "content": "Hello"}.',
                code="input.messages",
            )
        kept = {
            plain.key(key): plain.value(value)
            for key, value in message.items()
            if value is not None
        }
        reasoning = next((kept[key] for key in _REASONING if key in kept), None)
        if reasoning is not None:  # templates of different ages read different names
            kept = {"thinking": reasoning, **kept, "reasoning_content": reasoning}
        conversation.append(kept)
    return conversation


class _Plain:
    """Rebuilds values from plain JSON types, so that no method of a caller's object is in reach.

    Attributes:
        characters: of the texts that were rebuilt.
    """

    def __init__(self) -> None:
        self.characters = 0
        self._values = 0

    def value(self, value: Any, depth: int = 0) -> Any:
        self._values += 1
        if self._values > MAX_VALUES or depth > MAX_DEPTH:
            raise InputError(
                f"The conversation has more than {MAX_VALUES:,} values, or some more than "
                f"{MAX_DEPTH} deep within one another.",
                remedy="Shorten the conversation, and pass no list or dict that holds itself.",
                code="input.messages",
            )
        if isinstance(value, str):
            self.characters += len(value)
            return str.__str__(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and abs(value).bit_length() > MAX_INTEGER_BITS:
            raise InputError(
                f"A message holds a whole number of {value.bit_length():,} bits; at most "
                f"{MAX_INTEGER_BITS} are taken.",
                remedy="Write it as text.",
                code="input.messages",
            )
        for number in (int, float):
            if isinstance(value, number):
                return number(value)
        if isinstance(value, Mapping):
            return {self.key(key): self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple([self.value(item, depth + 1) for item in value])
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        return f"<{type(value).__name__}>"

    def key(self, key: Any) -> str | int:
        """Return a key of a dict as a template knows it: text, or a whole number."""
        known = self.value(key)
        return known if isinstance(known, str | int) else str(known)
