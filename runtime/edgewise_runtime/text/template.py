"""Chat templates: messages to prompt text, rendered as transformers renders them.

The Jinja environment is transformers': an immutable sandbox with trimmed blocks, loop controls,
a `tojson` that escapes nothing, `raise_exception`, `strftime_now` and a `{% generation %}` block.
A template comes with a checkpoint, so it is foreign code: it sees plain JSON values only, its
source and its output are bounded, and whatever it raises becomes an EdgewiseError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from edgewise_runtime.errors import CheckpointError, InputError
from edgewise_runtime.text.files import read_object, read_text

MAX_SOURCE_BYTES = 1 << 20
MAX_OUTPUT_CHARACTERS = 16 << 20
MAX_REPEATED = 1 << 20
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
        environment = _environment(clock)
        self._special_tokens = dict(special_tokens or {})
        self._templates = {name: _compile(environment, name, s) for name, s in named.items()}

    @classmethod
    def from_folder(
        cls, folder: Path, special_tokens: Mapping[str, str] | None = None
    ) -> ChatTemplate | None:
        """Load chat_template.jinja, or else what tokenizer_config.json holds, or else None."""
        config = read_object(folder / "tokenizer_config.json").get("chat_template")
        named: dict[str, str] = {}
        if isinstance(config, str):
            named["default"] = config
        elif isinstance(config, list):
            try:
                named |= {str(item["name"]): str(item["template"]) for item in config}
            except (TypeError, KeyError) as error:
                raise CheckpointError(
                    f"The list of chat templates in {folder / 'tokenizer_config.json'} has an "
                    f"entry without a name and a template.",
                    code="checkpoint.template",
                ) from error
        files = [folder / "chat_template.jinja"]
        files += sorted((folder / "additional_chat_templates").glob("*.jinja"))
        from_files = {
            "default" if path.name == "chat_template.jinja" else path.stem: source
            for path in files
            if (source := read_text(path, limit=MAX_SOURCE_BYTES)) is not None
        }
        named = from_files or named
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


class _Generation(Extension):
    """Accepts ``{% generation %}…{% endgeneration %}``, which marks what the assistant wrote."""

    tags = {"generation"}  # noqa: RUF012 (declared so by jinja2)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        # A call block, so that what the body sets stays inside, as with transformers.
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class _Environment(ImmutableSandboxedEnvironment):
    """Refuses to multiply a string or list into something huge."""

    intercepted_binops = frozenset(["*"])

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        for repeated, times in ((left, right), (right, left)):
            if not isinstance(repeated, str | list | tuple) or not isinstance(times, int):
                continue
            if len(repeated) * times > MAX_REPEATED:
                raise jinja2.TemplateError(f"{len(repeated)} items repeated {times} times")
        return super().call_binop(context, operator, left, right)


class _Namespace(Namespace):
    """Refuses names that begin with an underscore, which reach into Python."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # No parameter is called self, because an attribute may be.
        attributes = dict(*args[1:], **kwargs)
        for name in attributes:
            _check_attribute(name)
        Namespace.__init__(args[0], attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


class _Dict:
    """The `dict` a template may call, without the rest of the class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


def _check_attribute(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}")


def _environment(clock: Callable[[], datetime]) -> _Environment:
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )

    def strftime_now(form: str) -> str:
        return clock().strftime(form)

    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": strftime_now,
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return environment


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _compile(environment: _Environment, name: str, source: str) -> jinja2.Template:
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
