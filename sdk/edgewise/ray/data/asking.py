"""Rows of a table as requests: which columns say what, and the options that are all rows'."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from edgewise.hosting.base import Ask
from edgewise.options import SamplingOptions
from edgewise.ray.data.keys import digest_of, seed_of
from edgewise.request import read_options
from edgewise.tools import ToolLike, described
from edgewise.wanted import wanted_of
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import parse_json, shorten

MAX_CELL = 32 << 20
"""Characters of a cell that is read as JSON."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table say what is asked.

    Attributes:
        prompt: text, or a list of token ids.
        messages: a conversation: a list of structs such as ``{"role": "user", "content": "Hi"}``,
            or the text of such a list in JSON.
        options: of this row by name, a struct or a JSON object; what is null in it is not given.
        key: what tells rows apart, such as their numbers.
    """

    prompt: str | None = None
    messages: str | None = None
    options: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        """Raise InputError ``input.column`` where there is not one column to answer."""
        if (self.prompt is None) == (self.messages is None):
            raise InputError(
                f"prompt is {shorten(self.prompt)} and messages {shorten(self.messages)}.",
                remedy="Name the column of one of them.",
                code="input.column",
            )

    @property
    def named(self) -> list[str]:
        """All of them."""
        every = (self.prompt, self.messages, self.options, self.key)
        return list(dict.fromkeys(name for name in every if name is not None))

    def check(self, columns: Iterable[str]) -> None:
        """Refuse a table that has not all of them, with InputError ``input.column``."""
        there = list(columns)
        for name in self.named:
            if name not in there:
                raise InputError(
                    f"There is no column {shorten(name)}.",
                    remedy=f"There are {', '.join(map(shorten, there[:20])) or 'none'}.",
                    code="input.column",
                )


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What is asked of every row.

    Attributes:
        columns: of what a row says itself.
        seed: from which each row has its own where there is a column that tells them apart, and
            else the seed of all.
        options: of `edgewise.options.RequestOptions`; those of a row come first.
        tools: as OpenAI's API has them.
        variables: of the chat template.
    """

    columns: Columns
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] | None = None
    variables: Mapping[str, Any] | None = None

    @staticmethod
    def of(
        columns: Columns,
        options: Mapping[str, Any],
        *,
        tools: Iterable[ToolLike] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Asking:
        """Check what is asked of every row, before anything is read or loaded.

        Args:
            options: by name; None is as good as not given.

        Raises what `read_options` and `wanted_of` do.
        """
        given = {name: value for name, value in options.items() if value is not None}
        read_options(given, {})
        shown = None if tools is None else described(tools)
        wanted = wanted_of(given, tools)
        sampling = given.pop("sampling", None)
        if isinstance(sampling, SamplingOptions):
            given = {**sampling.given(), **given}
        # A class or a function stays here: workers are told its schema and its name.
        if wanted.format is not None:
            given["response_format"] = wanted.format.to_json()
        if "tool_choice" in given:
            given["tool_choice"] = wanted.choice.to_json()
        if wanted.reasoning is not None:
            given["reasoning"] = wanted.reasoning.to_json()
        seed = given.pop("seed", 0)
        return Asking(
            columns=columns, seed=max(seed, 0), options=given, tools=shown, variables=variables
        )

    def to_json(self) -> dict[str, Any]:
        """What decides the answers, as JSON."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return found

    def ask_of(self, row: Mapping[str, Any]) -> Ask:
        """The request of a row; its seed is always said.

        Raises InputError ``input.cell`` for a cell that is not what its column is for.
        """
        own = {} if self.columns.options is None else _options(row[self.columns.options])
        options = {"seed": self._seed_of(row), **self.options, **own}
        if self.columns.messages is not None:
            return Ask(
                messages=_messages(row[self.columns.messages]),
                tools=self.tools,
                variables=self.variables,
                options=options,
            )
        return Ask(
            prompt=_prompt(row[self.columns.prompt or ""]), tools=self.tools, options=options
        )

    def _seed_of(self, row: Mapping[str, Any]) -> int:
        key = self.columns.key
        return self.seed if key is None else seed_of(self.seed, digest_of(row, key))


def _prompt(cell: Any) -> str | list[int]:
    if isinstance(cell, str | list):
        return cell
    raise _wrong("prompt", cell, "text or a list of token ids")


def _messages(cell: Any) -> list[Mapping[str, Any]]:
    value = _json(cell, "messages") if isinstance(cell, str) else cell
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise _wrong("messages", cell, "a list of messages, or one in JSON")
    return [_without_nulls(one) for one in value]


def _options(cell: Any) -> dict[str, Any]:
    value = _json(cell, "options") if isinstance(cell, str) else cell
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong("options", cell, "a struct of options by name, or a JSON object")
    if isinstance(cell, str):  # there a null is meant
        return {name: one for name, one in value.items() if one is not None}
    return {name: _without_nulls(one) for name, one in value.items() if one is not None}


def _json(cell: str, what: str) -> Any:
    if len(cell) > MAX_CELL:
        raise _wrong(what, cell, f"at most {MAX_CELL:,} characters")
    return parse_json(
        cell.encode("utf-8", "surrogatepass"), f"The cell of {what}", InputError, what="cell"
    )


def _without_nulls(value: Any) -> Any:
    """A value without what only other rows have: a column's structs have the fields of all.

    A message's content may be null itself.
    """
    if isinstance(value, Mapping):
        return {
            name: _without_nulls(one)
            for name, one in value.items()
            if one is not None or name == "content"
        }
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _wrong(what: str, cell: Any, wanted: str) -> InputError:
    return InputError(
        f"The cell of {what} is {shorten(cell)}; it must be {wanted}.", code="input.cell"
    )
