"""Chat templates: messages to prompt text, rendered as transformers renders them.

A template comes with a checkpoint, so it is foreign code: it runs in a sandbox, sees plain JSON
values only, its source and its output are bounded, and whatever it raises becomes an
EdgewiseError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgewise_runtime.errors import CheckpointError, InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text.files import TextFiles
from edgewise_runtime.text.sandbox import template_environment

MAX_SOURCE_BYTES = 1 << 20
MAX_OUTPUT_CHARACTERS = 16 << 20
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
        environment = template_environment(clock)
        self._special_tokens = dict(special_tokens or {})
        self._templates = {name: _compile(environment, name, s) for name, s in named.items()}

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
        context = self._special_tokens | {
            name: _plain(value)
            for name, value in {**variables, "tools": tools, "documents": None}.items()
        }
        try:
            pieces = template.generate(
                **context,
                messages=_conversation(messages),
                add_generation_prompt=add_generation_prompt,
            )
            return _joined(pieces)
        except (InputError, CheckpointError):
            raise
        except Exception as error:  # a template can raise anything
            raise InputError(
                f"The model's chat template refuses these messages: {error or repr(error)}.",
                remedy="Check the order of the roles and that every content is text.",
                code="input.template",
            ) from error

    def _select(self, *, with_tools: bool) -> jinja2.Template:
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


def _compile(environment: ImmutableSandboxedEnvironment, name: str, source: str) -> jinja2.Template:
    if len(source) > MAX_SOURCE_BYTES:
        raise CheckpointError(
            f"The chat template {name!r} has {len(source):,} characters; at most "
            f"{MAX_SOURCE_BYTES:,} are accepted.",
            code="checkpoint.template",
        )
    try:
        return environment.from_string(source)
    except (jinja2.TemplateError, RecursionError, SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise CheckpointError(
            f"The chat template {name!r} is not valid Jinja: {error or repr(error)}{line}.",
            remedy="Compare chat_template.jinja with the one the model was published with.",
            code="checkpoint.template",
        ) from error


def _joined(pieces: Any) -> str:
    kept: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_OUTPUT_CHARACTERS:
            raise InputError(
                f"The chat template wrote more than {MAX_OUTPUT_CHARACTERS:,} characters.",
                remedy="Shorten the conversation.",
                code="input.template",
            )
        kept.append(piece)
    return "".join(kept)


def _conversation(messages: Sequence[Message]) -> list[dict[str, Any]]:
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
        plain = {key: _plain(value) for key, value in message.items() if value is not None}
        reasoning = next((plain[key] for key in _REASONING if key in plain), None)
        if reasoning is not None:  # templates of different ages read different names
            plain = {"thinking": reasoning, **plain, "reasoning_content": reasoning}
        conversation.append(plain)
    return conversation


def _plain(value: Any) -> Any:
    """Rebuild a value from plain JSON types, so that no method of a caller's object is in reach."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    for number in (int, float):
        if isinstance(value, number):
            return number(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return f"<{type(value).__name__}>"
