"""What the server itself counts. For one event loop."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from edgewise.server.operations.exposition import Exposed, Sample

METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")


@dataclass
class Counts:
    """Numbers that no model knows.

    Attributes:
        answered: requests by route, method and status class: every part of it one of a few.
        open_requests: HTTP requests whose answer is not all sent.
        open_sockets: WebSockets.
        streams: requests that a model is answering.
        restarts: by model, how often its process was started again after it had died.
        steadied: requests in which a line of an agent was replaced, by agent.
    """

    answered: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    open_requests: int = 0
    open_sockets: int = 0
    streams: int = 0
    restarts: Counter[str] = field(default_factory=Counter)
    steadied: Counter[str] = field(default_factory=Counter)

    def on_answered(self, route: str, method: str, status: int) -> None:
        """An answer is sent, or its client has left."""
        known = method if method in METHODS else "other"
        self.answered[route, known, f"{status // 100}xx"] += 1

    def on_restart(self, model: str) -> None:
        """A model's process had died, and another one was started."""
        self.restarts[model] += 1

    def exposed(self) -> list[Exposed]:
        return [
            Exposed(
                "edgewise:http_requests_total",
                "counter",
                "HTTP requests that were answered, by route and status class.",
                tuple(
                    Sample(count, {"route": route, "method": method, "status": status})
                    for (route, method, status), count in sorted(self.answered.items())
                ),
            ),
            _gauge(
                "http_requests_open", "HTTP requests whose answer is under way.", self.open_requests
            ),
            _gauge("websockets_open", "WebSockets.", self.open_sockets),
            _gauge("streams_open", "Requests that a model is answering.", self.streams),
            Exposed(
                "edgewise:model_restarts_total",
                "counter",
                "Processes of a model that died and were started again.",
                tuple(
                    Sample(count, {"model_name": model})
                    for model, count in sorted(self.restarts.items())
                ),
            ),
            Exposed(
                "edgewise:agent_lines_total",
                "counter",
                "Requests in whose system prompt a line that always changes was replaced.",
                tuple(
                    Sample(count, {"agent": agent})
                    for agent, count in sorted(self.steadied.items())
                ),
            ),
        ]


def _gauge(name: str, about: str, value: float) -> Exposed:
    return Exposed(f"edgewise:{name}", "gauge", about, (Sample(value),))
