"""Lines that coding agents change with every request, made to stay, so that prefixes are reused.

A prompt is computed again from its first token on that differs. An agent that writes a new number
near the beginning of its system prompt makes everything after it be computed anew: the prompt, the
tools, the whole conversation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROLES = frozenset({"system", "developer"})
AGENT_CONTEXT = 32768
"""Tokens below which an agent's own prompt and tools leave little room for work."""


@dataclass(frozen=True)
class Changing:
    """A line that changes with every request and tells the model nothing.

    Attributes:
        agent: whose it is.
        mark: what the line begins with.
        fields: what follows the mark and changes: bounded, and within the line.
        instead: what stands for the mark and the fields.
    """

    agent: str
    mark: str
    fields: str
    instead: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(f"^{re.escape(self.mark)}{self.fields}", re.MULTILINE)


CHANGING = (
    # `x-anthropic-billing-header: cc_version=2.1.101.e51; cc_entrypoint=cli; cch=a5145;` and then
    # the end of the line, or the next block's text where blocks are joined with nothing between.
    Changing(
        agent="claude-code",
        mark="x-anthropic-billing-header:",
        fields=r"(?:[ \t]{0,4}[a-z_]{1,32}=[^\s;]{0,128}(?:;|$)){1,16}",
        instead="x-anthropic-billing-header: -;",
    ),
)
"""What is known to change. A line is here only if it was seen to: dates and times, which a model
may be asked for, are not."""

_PATTERNS = tuple((known, known.pattern) for known in CHANGING)


def steady(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[Sequence[Mapping[str, Any]], tuple[str, ...]]:
    """A conversation whose system prompts are the same the next time, and whose lines changed.

    Returns:
        The messages, the very same where nothing was replaced, and the agents by name.
    """
    changed: dict[str, None] = {}
    steadied = [_message(message, changed) for message in messages]
    return (steadied if changed else messages), tuple(changed)


def too_small_for_agents(context: int) -> str | None:
    """What to tell of a context of so many tokens; None where agents have room in it."""
    if context >= AGENT_CONTEXT:
        return None
    return (
        f"A context of {context:,} tokens is small for coding agents: their own prompts and tools "
        f"take most of it. Those need {AGENT_CONTEXT:,} or more."
    )


def _message(message: Mapping[str, Any], changed: dict[str, None]) -> Mapping[str, Any]:
    # What is no message is refused by who reads it next.
    if not isinstance(message, Mapping) or message.get("role") not in ROLES:
        return message
    content = message.get("content")
    if isinstance(content, str):
        return _with(message, "content", content, _text(content, changed))
    if isinstance(content, list | tuple):
        parts = [_part(part, changed) for part in content]
        return _with(message, "content", list(content), parts)
    return message


def _part(part: Any, changed: dict[str, None]) -> Any:
    if not isinstance(part, Mapping) or not isinstance(text := part.get("text"), str):
        return part
    return _with(part, "text", text, _text(text, changed))


def _with(holder: Mapping[str, Any], key: str, before: Any, after: Any) -> Mapping[str, Any]:
    return holder if before == after else {**holder, key: after}


def _text(text: str, changed: dict[str, None]) -> str:
    for known, pattern in _PATTERNS:
        if known.mark not in text:
            continue
        steadied = pattern.sub(lambda _, instead=known.instead: instead, text)  # type: ignore[misc]
        if steadied != text:
            changed[known.agent] = None
            text = steadied
    return text
