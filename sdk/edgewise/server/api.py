"""What an API is: its operations, and the words in which it says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import BaseModel
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from edgewise.server.failing import Endpoint, answering
from edgewise_runtime.errors import EdgewiseError


class _Rest(StringConvertor):
    """All that is left of a path, lines and all: starlette's own `path` ends at the first."""

    regex = r"[\s\S]*"


register_url_convertor("rest", _Rest())

Failed: TypeAlias = Callable[[EdgewiseError], Response]
"""The response of an error."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What is done at a path.

    Attributes:
        method, path: as starlette writes them.
        summary: what comes of it.
        answered: the shape of its answer; None where none is JSON.
        asked: what its body is read as; None where it has none.
        query: what its query is read as; None where it reads none.
        text: the type of its answers that are text, such as streams.
        also: the shapes of answers with another status than 200 that are no errors.
        only_with: a header without which it is no request of this API.
    """

    method: str
    path: str
    summary: str
    endpoint: Endpoint
    answered: type[BaseModel] | None = None
    asked: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    text: str | None = None
    also: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    only_with: str | None = None


@dataclass(frozen=True)
class Api:
    """Operations whose errors are said alike.

    Attributes:
        name: a word.
        error: the shape of what `failed` says.
    """

    name: str
    failed: Failed
    error: type[BaseModel]
    operations: tuple[Operation, ...]

    def routes(self) -> list[ApiRoute]:
        """The routes of its operations, in their order."""
        return [
            ApiRoute(one.path, one.endpoint, self.failed, (one.method,), one.only_with)
            for one in self.operations
        ]


class ApiRoute(Route):
    """A route of an API.

    Attributes:
        failed: how what is refused before it comes to the endpoint is said.
    """

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        failed: Failed,
        methods: Iterable[str],
        only_with: str | None = None,
    ) -> None:
        """A route that answers errors as `failed` says them; `only_with`: see `Operation`."""
        super().__init__(path, answering(endpoint, failed), methods=list(methods))
        self.failed = failed
        self._only_with = only_with

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Nothing without the header that requests of its API have."""
        wanted = self._only_with
        if wanted is not None and all(name != wanted.encode() for name, _ in scope["headers"]):
            return Match.NONE, {}
        return super().matches(scope)
