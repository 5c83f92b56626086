"""A server of a tiny model whose device and whose clock stand still when they are told to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware

from edgewise import AsyncEngine
from edgewise.hosting.local import LocalModel
from edgewise.server.guard import Guard
from edgewise.server.run import in_background, listen
from edgewise.server.socket.routes import routes
from tests.processes import eventually
from tests.sdk.gate import Gate
from tests.sdk.server.models import Some


class Pace(Gate):
    """A gate that can let some launches through and then closes itself."""

    def __init__(self) -> None:
        super().__init__()
        self._left: int | None = None

    def close_after(self, launches: int) -> None:
        """Stand still at the launch after so many more."""
        self.stands.clear()
        self._left = launches

    def pass_through(self) -> None:
        if self._left is not None:
            if not self._left:
                self.close()
            self._left = self._left - 1 if self._left else None
        super().pass_through()


@dataclass
class _Timer:
    call: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    over: bool = False

    def cancel(self) -> None:
        self.over = True


@dataclass
class HandClock:
    """Time that passes when it is told to."""

    timers: list[_Timer] = field(default_factory=list)

    def later(self, seconds: float, call: Callable[[], None]) -> _Timer:
        timer = _Timer(call, asyncio.get_running_loop())
        self.timers.append(timer)
        return timer

    @property
    def running(self) -> list[_Timer]:
        return [timer for timer in self.timers if not timer.over]

    def run_out(self) -> None:
        """As much time passes as anything waits for."""
        for timer in self.running:
            timer.over = True
            timer.loop.call_soon_threadsafe(timer.call)


@dataclass(frozen=True)
class Served:
    url: str
    engine: AsyncEngine
    gate: Pace
    clock: HandClock

    def metric(self, name: str) -> Any:
        return self.engine.metrics()[name]

    def arrived(self) -> bool:
        """Whether a request comes to the engine while it stands still."""
        return eventually(lambda: self.engine.session.loop._arriving == 1)

    def idle(self) -> bool:
        """Whether the engine comes to have nothing to do, and no page in use."""
        return eventually(
            lambda: (
                self.metric("num_requests_running") == 0
                and self.metric("num_requests_waiting") == 0
                and self.metric("kv_pages_used") == 0
            )
        )

    def left(self) -> bool:
        """Whether the server comes to notice that a socket is gone."""
        return eventually(lambda: bool(self.clock.running))


@contextmanager
def serving(bundle: Path, *, send_buffer: int = 0, **options: Any) -> Iterator[Served]:
    """A server with options of `routes`; `send_buffer`: bytes of its sockets' buffers."""
    gate, clock = Pace(), HandClock()
    engine = asyncio.run(AsyncEngine.load(bundle, device=gate))
    models = Some({"tiny": LocalModel("tiny", engine)})
    app = Starlette(
        routes=routes(models, later=clock.later, **options),
        middleware=[Middleware(Guard, hosts=())],
    )
    try:
        with listen("127.0.0.1", 0) as listening:
            if send_buffer:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
            with in_background(app, listening) as url:
                yield Served(url, engine, gate, clock)
                gate.open()
    finally:
        gate.open()
        asyncio.run(models.close())
