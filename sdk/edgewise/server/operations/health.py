"""``GET /health`` and ``GET /ready``: whether the process lives, and whether to send it requests.

Both are answered without a token and name nothing: no model, no path, no version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgewise.hosting.base import Models
from edgewise.server.api import Operation
from edgewise.server.operations.drain import Drain
from edgewise_runtime.errors import EdgewiseError

PUBLIC = frozenset({"/health", "/ready"})
"""Paths that need no token."""

PASSING = ("engine.busy", "engine.memory", "engine.closed", "engine.draining", "input.")
"""How the codes begin of what says nothing about whether a model can be loaded."""


@dataclass
class Readiness:
    """Whether requests can be taken.

    Attributes:
        wanted: the models that the server was started for.
        loading: those of them that are being loaded before the first request.
        failed: the code of the error that a model last failed to load with, by its name.
    """

    drain: Drain
    wanted: Sequence[str] = ()
    loading: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    def on_loaded(self, name: str) -> None:
        self.failed.pop(name, None)

    def on_failed(self, name: str, error: EdgewiseError) -> None:
        """A model could not be had. A name that nobody was started for is not remembered."""
        if name in self.wanted and not error.code.startswith(PASSING):
            self.failed[name] = error.code

    def why_not(self, models: Models) -> list[str]:
        """What is in the way of requests; nothing where they can come."""
        there = set(models.names())
        missing = sum(name not in there for name in self.wanted)
        return [
            *(["draining"] if self.drain.draining else []),
            *(["loading"] if self.loading else []),
            *([f"missing: {missing} of {len(self.wanted)} models"] if missing else []),
            *(f"cannot load: {code}" for code in sorted(set(self.failed.values()))),
        ]


class Health(BaseModel):
    """The process lives."""

    status: Literal["ok"]


class Ready(BaseModel):
    """Whether to send requests, and what is in the way."""

    status: str
    why: list[str] = []


def operations(models: Models, readiness: Readiness) -> tuple[Operation, ...]:
    """``/health`` and ``/ready``."""

    async def health(_: Request) -> Response:
        return _answer(200, {"status": "ok"})

    async def ready(_: Request) -> Response:
        why = readiness.why_not(models)
        if why:
            return _answer(503, {"status": why[0].partition(":")[0], "why": why})
        return _answer(200, {"status": "ready"})

    return (
        Operation(
            method="GET", path="/health", summary="It lives.", endpoint=health, answered=Health
        ),
        Operation(
            method="GET",
            path="/ready",
            summary="It takes requests.",
            endpoint=ready,
            answered=Ready,
            also={"503": Ready},
        ),
    )


def _answer(status: int, said: dict[str, object]) -> Response:
    return JSONResponse(said, status, {"Cache-Control": "no-store"})
