"""What is noted of a request while it is answered: numbers, and words that are ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from traceback import extract_tb
from typing import Any

from edgewise.hosting.base import Ended

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")

FRAMES = 4
"""Of an error's traceback, innermost first, that are told."""

LEFT = "left"
"""Why it ended: its client had gone."""


@dataclass
class Entry:
    """A request, or what one WebSocket asked. Nothing in it is a client's text but its id.

    Attributes:
        id: that the answer names, too.
        socket: whether requests come over a WebSocket, any number of them.
        route: the template of the route, never the path.
        status: None where no answer began.
        model: the name of a model that there is.
        ended: why each choice ended, the code of an error, or `LEFT`.
        agents: whose changing lines were replaced.
        failure: the kind of an error that nobody foresaw, and where it was raised.
    """

    id: str
    method: str
    socket: bool = False
    began: float = field(default_factory=perf_counter)
    route: str = ""
    status: int | None = None
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    ttft_s: float | None = None
    ended: dict[str, None] = field(default_factory=dict)
    agents: dict[str, None] = field(default_factory=dict)
    failure: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: Entry | None) -> Entry:
        """Of a request that came over a WebSocket, or from nowhere that is known."""
        if connection is None:
            return cls(request_id(""), "-")
        return cls(connection.id, connection.method, route=connection.route)

    def on_said(self) -> None:
        """Something came of a request."""
        if self.ttft_s is None:
            self.ttft_s = perf_counter() - self.began

    def on_ended(self, choice: Ended) -> None:
        """A choice is whole; the prompt is the same for all of a request."""
        usage = choice.usage
        if choice.index == 0:
            self.prompt_tokens += usage.prompt_tokens
            self.cached_tokens += usage.cached_tokens
        self.completion_tokens += usage.completion_tokens
        self.ended[choice.finish_reason] = None

    def on_embedded(self, tokens: Iterable[int]) -> None:
        """Texts of so many tokens each have their vectors."""
        self.prompt_tokens += sum(tokens)
        self.ended["embedded"] = None

    def on_failed(self, error: Exception) -> None:
        """An error that nobody foresaw; its message may have a client's text in it."""
        frames = extract_tb(error.__traceback__)[-FRAMES:]
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames)]
        self.ended["internal"] = None
        self.failure = {"error": type(error).__name__, "at": " < ".join(places)}

    def to_json(self) -> dict[str, Any]:
        """What a line of the log has; numbers of tokens only where a model was asked."""
        asked = {
            "model": self.model,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cached_tokens": self.cached_tokens,
            "ttft_s": None if self.ttft_s is None else round(self.ttft_s, 4),
        }
        return {
            "request_id": self.id,
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "duration_s": round(perf_counter() - self.began, 4),
            **(asked if self.model else {}),
            **({"ended": ",".join(self.ended)} if self.ended else {}),
            **self.failure,
            **({"agent_lines": ",".join(self.agents)} if self.agents else {}),
        }


def request_id(asked: str) -> str:
    """The id that a client gave its request where it is a short plain word, otherwise a new one."""
    return asked if _ID.fullmatch(asked) else f"req_{token_hex(12)}"


CURRENT: ContextVar[Entry | None] = ContextVar("edgewise_request", default=None)
"""The request that the running task answers."""


def note_failure(error: Exception) -> None:
    """Have the log say of the request that the running task answers what failed, and where."""
    if entry := CURRENT.get():
        entry.on_failed(error)
