"""All that keeps one server running, put together for `make_app` and `run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.middleware import Middleware

from edgewise.hosting.base import Models
from edgewise.server.api import Api
from edgewise.server.failing import Failure, failed
from edgewise.server.operations import health, metrics
from edgewise.server.operations.counts import Counts
from edgewise.server.operations.drain import Drain, Draining
from edgewise.server.operations.health import Readiness
from edgewise.server.operations.logs import Log, Logged
from edgewise.server.operations.watched import Watch, WatchedModels


@dataclass
class Operations:
    """What a server is watched and ended by.

    Attributes:
        wanted: the models that the server was started for: without one of them it is not ready.
        keep_agent_lines: see `agents.steady`.
    """

    log: Log = field(default_factory=lambda: Log("none"))
    drain: Drain = field(default_factory=Drain)
    counts: Counts = field(default_factory=Counts)
    wanted: Sequence[str] = ()
    keep_agent_lines: bool = False

    def __post_init__(self) -> None:
        self.readiness = Readiness(self.drain, tuple(self.wanted))

    def watch(self, models: Models) -> WatchedModels:
        """The models as the routes of APIs are to ask them."""
        watch = Watch(self.log, self.counts, self.drain, self.readiness, self.keep_agent_lines)
        return WatchedModels(models, watch)

    def api(self, models: Models) -> Api:
        """``/metrics``, ``/health`` and ``/ready``."""
        ours = (
            *metrics.operations(models, self.counts),
            *health.operations(models, self.readiness),
        )
        return Api("operation", failed, Failure, ours)

    def outer(self) -> list[Middleware]:
        """What stands before the guard: also what that refuses is logged."""
        return [Middleware(Logged, log=self.log, counts=self.counts)]

    def inner(self) -> list[Middleware]:
        """What stands behind the guard, whose headers a refusal has, too."""
        return [Middleware(Draining, drain=self.drain)]
