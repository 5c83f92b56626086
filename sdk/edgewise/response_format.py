"""What an answer has to be: any text, JSON, JSON of a schema or a type, a regex or a grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgewise.plain import plain_json
from edgewise.shapes import MismatchError, shape_of
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.json_text import read_json

Kind = Literal["json_object", "json_schema", "regex", "grammar"]
Syntax = Literal["gbnf", "lark"]
SYNTAXES = ("gbnf", "lark")
_KEYS = {"regex": "pattern", "grammar": "grammar"}
MAX_TEXT = 1 << 18
"""Characters of a regex or a grammar."""
_CODE = "input.response_format"
_EXAMPLE = '{"type": "json_schema", "json_schema": {"name": "answer", "schema": {...}}}'


@dataclass(frozen=True)
class ResponseFormat:
    """What an answer is constrained to.

    Attributes:
        kind: ``json_object`` is any object; ``json_schema`` has a schema, the others a text.
        schema: a JSON schema.
        text: a regex, which the whole answer matches, or a grammar.
        syntax: what the grammar is written in; None to tell it by its text.
        name: of the schema.
    """

    kind: Kind
    schema: Mapping[str, Any] | None = None
    text: str = ""
    syntax: Syntax | None = None
    name: str = ""
    read: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """As OpenAI's API has it, and regexes and grammars besides; see `response_format_of`."""
        if self.kind == "json_schema":
            held = {"name": self.name or "answer", "schema": dict(self.schema or {})}
            return {"type": self.kind, "json_schema": held}
        if self.kind == "json_object":
            return {"type": self.kind}
        syntax = {} if self.syntax is None else {"syntax": self.syntax}
        return {"type": self.kind, _KEYS[self.kind]: self.text, **syntax}

    def parse(self, answer: str) -> Any:
        """Return an answer as what was asked for: an instance of the model or the class, a JSON
        value, or the text itself of a regex and a grammar.

        Raises InputError ``input.answer`` for a text that is none, such as one that ended early.
        """
        if self.kind in ("regex", "grammar"):
            return answer
        try:
            value = read_json(answer)
            if self.kind == "json_object" and not isinstance(value, dict):
                raise MismatchError(f"{shorten(value)} is no object")
            return value if self.read is None else self.read(value)
        except (ValueError, MismatchError) as error:
            raise InputError(
                f"The answer {shorten(answer)} is not what was asked for: {error}.",
                remedy="Where its finish_reason is 'length', allow more with max_tokens.",
                code="input.answer",
            ) from error


def regex(pattern: str) -> ResponseFormat:
    """The format of answers that a regex matches as a whole.

    Raises InputError ``input.response_format``.
    """
    return ResponseFormat("regex", text=_text(pattern, "pattern"))


def grammar(text: str, syntax: Syntax | None = None) -> ResponseFormat:
    """The format of answers that a grammar produces, written in GBNF or for Lark.

    Raises InputError ``input.response_format``.
    """
    if syntax is not None and syntax not in SYNTAXES:
        raise _wrong(f"A grammar's syntax is {shorten(syntax)}.", "It is gbnf or lark.")
    return ResponseFormat("grammar", text=_text(text, "grammar"), syntax=syntax)


def response_format_of(value: Any) -> ResponseFormat | None:
    """Read and check the option `response_format`.

    Args:
        value: ``"text"`` or None, for which there is no format; ``"json"`` for any object; a
            pydantic model, a TypedDict, a dataclass or another type; what OpenAI's API takes, such
            as ``{"type": "json_schema", "json_schema": {"name": "answer", "schema": {...}}}``;
            ``{"type": "regex", "pattern": ...}``, ``{"type": "grammar", "grammar": ...}``, or what
            `regex` and `grammar` return.

    Raises:
        InputError: ``input.response_format``.
        UnsupportedError: ``unsupported.response_format``, ``unsupported.type_hint``.
    """
    if value is None or isinstance(value, ResponseFormat):
        return value
    if isinstance(value, str):
        value = {"type": {"json": "json_object"}.get(value, value)}
    if not isinstance(value, Mapping):
        return _of_type(value)
    kind = value.get("type")
    if not isinstance(kind, str):
        raise _wrong(f"response_format's type is {shorten(kind)}.", f"Such is one: {_EXAMPLE}.")
    if kind not in _TYPES:
        raise UnsupportedError(
            f"response_format is of type {shorten(kind)}.",
            remedy=f"There are {', '.join(_TYPES)}.",
            code="unsupported.response_format",
        )
    keys, read = _TYPES[kind]
    _check_keys(value, ("type", *keys), "response_format")
    return read(value)


def _of_type(hint: Any) -> ResponseFormat:
    shape = shape_of(hint)
    name = getattr(hint, "__name__", "")
    return ResponseFormat("json_schema", schema=shape.schema, name=name, read=shape.read)


def _of_schema(value: Mapping[str, Any]) -> ResponseFormat:
    held = value.get("json_schema")
    if not isinstance(held, Mapping):
        raise _wrong(f"json_schema is {shorten(held)}.", f"Such is one: {_EXAMPLE}.")
    _check_keys(held, ("name", "description", "schema", "strict"), "json_schema")
    schema, name = held.get("schema"), held.get("name")
    if not isinstance(schema, Mapping):
        raise _wrong(f"json_schema's schema is {shorten(schema)}.", f"Such is one: {_EXAMPLE}.")
    if not isinstance(name, str | None):
        raise _wrong(f"json_schema's name is {shorten(name)}, no text.", "Leave it out.")
    if not isinstance(held.get("strict"), bool | None):
        raise _wrong(
            f"json_schema's strict is {shorten(held['strict'])}.",
            "Leave it out: answers always follow the schema.",
        )
    plain = plain_json(schema, "A JSON schema", code=_CODE)
    return ResponseFormat("json_schema", schema=plain, name=name or "")


def _of_regex(value: Mapping[str, Any]) -> ResponseFormat:
    return regex(value.get("pattern", ""))


def _of_grammar(value: Mapping[str, Any]) -> ResponseFormat:
    return grammar(value.get("grammar", ""), value.get("syntax"))


_TYPES: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], ResponseFormat | None]]] = {
    "text": ((), lambda _: None),
    "json_object": ((), lambda _: ResponseFormat("json_object")),
    "json_schema": (("json_schema",), _of_schema),
    "regex": (("pattern",), _of_regex),
    "grammar": (("grammar", "syntax"), _of_grammar),
}
"""Types of formats: which keys they have, and how they are read."""


def _check_keys(value: Mapping[Any, Any], known: tuple[str, ...], what: str) -> None:
    for key in value:
        if key not in known:
            raise _wrong(f"{what} has no {shorten(key)}.", f"There are {', '.join(known)}.")


def _text(text: Any, name: str) -> str:
    if isinstance(text, str) and 0 < len(text) <= MAX_TEXT:
        return str(plain_json(text, f"The {name}", code=_CODE))
    raise _wrong(
        f"The {name} is {shorten(text)}.", f"It is a text of 1 to {MAX_TEXT:,} characters."
    )


def _wrong(message: str, remedy: str) -> InputError:
    return InputError(message, remedy=remedy, code=_CODE)
