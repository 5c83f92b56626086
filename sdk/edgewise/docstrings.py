"""What a function's docstring says, section by section, in Google's style.

Read as transformers' `get_json_schema` reads it, so that a tool is described in the same words.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_SECTION = re.compile(r"\s*(?:Args|Returns|Raises):")
_NEXT = re.compile(r"\s*(?:Returns|Raises):")
_ARGS = re.compile(r"\n[^\S\n]*Args:\n")
_RETURNS = re.compile(r"\n\s*Returns:\n")
_RAISES = re.compile(r"\s*Raises:")
_ARGUMENT = re.compile(r"([ \t]*)(\w+)(?: \([^()\n]*\))?:\s*(.*)")
_CHOICES = re.compile(r"\(choices:\s*(\[.*\])\)\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Documented:
    """The sections of one docstring.

    Attributes:
        summary: what stands before the first section.
        arguments: by name.
        returns: None where it says nothing of it.
    """

    summary: str
    arguments: dict[str, str]
    returns: str | None


def read_docstring(text: str) -> Documented:
    """Return the sections of a docstring without indentation (`inspect.getdoc`)."""
    text = text.strip()
    returns = _after(text, _RETURNS, _RAISES)
    return Documented(
        summary=_before(text, _SECTION),
        arguments=_arguments(_after(text, _ARGS, _NEXT) or ""),
        returns=None if returns is None else returns.strip(),
    )


def choices(described: str) -> tuple[str, list[Any] | None]:
    """Split ``Which one (choices: ["a", "b"])`` into the words and the choices, None for none.

    Raises ValueError where the choices are no JSON.
    """
    found = _CHOICES.search(described)
    if found is None:
        return described, None
    listed = json.loads(found[1])
    values = [value.strip() if isinstance(value, str) else value for value in listed]
    return described[: found.start()].strip(), values


def _before(text: str, mark: re.Pattern[str]) -> str:
    found = mark.search(text)
    return (text[: found.start()] if found else text).strip()


def _after(text: str, mark: re.Pattern[str], end: re.Pattern[str]) -> str | None:
    """What stands between the line of a section and what ends it; None where there is none."""
    found = mark.search(text)
    if found is None:
        return None
    rest = text[found.end() :]
    ends = end.search(rest)
    return (rest[: ends.start()] if ends else rest).rstrip()


def _arguments(block: str) -> dict[str, str]:
    """The text of each argument, its lines joined by spaces."""
    lines: dict[str, list[str]] = {}
    current: list[str] = []
    # Of the argument being read: deeper lines go on with it, whatever they look like.
    indent: str | None = None
    for line in filter(str.strip, block.split("\n")):
        begins = _ARGUMENT.match(line)
        deeper = indent is not None and line.startswith((f"{indent} ", f"{indent}\t"))
        if begins and not deeper:
            indent, name, said = begins.groups()
            current = lines.setdefault(name, [])
            current[:] = [said]
        else:
            current.append(line)
    return {name: " ".join(filter(None, map(str.strip, said))) for name, said in lines.items()}
