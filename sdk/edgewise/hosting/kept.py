"""What a pool knows of each of its models, and how it treats them."""

from __future__ import annotations

from asyncio import Task
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise.hosting.base import Json
from edgewise.hosting.worker import Worker
from edgewise_runtime.resident import resident_bytes

KEEP_ALIVE_S = 300.0


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """How a pool loads models, and for how long it keeps them.

    Attributes:
        keep_alive_s: seconds that a model stays after its last request: below 0 for ever, 0 for
            not at all.
        memory_bytes: what all of them may take together, and so each; None for what the machine
            has.
        listed: whether those may be asked for that `edgewise ls` lists, beside those named.
        device, program, threads, context, trust, settings: of each, see `edgewise.Engine`.
    """

    keep_alive_s: float = KEEP_ALIVE_S
    memory_bytes: int | None = None
    listed: bool = True
    device: str | None = None
    program: str | None = None
    threads: int | None = None
    context: int | None = None
    trust: bool = False
    settings: Mapping[str, Json] = field(default_factory=dict)


@dataclass(eq=False)
class Kept:
    """A model that has been asked for.

    Attributes:
        where: what `find_bundle` finds.
        bytes: that it needs, known once it was loaded.
        worker: None while it is not in memory.
        loading: the task that loads it.
        running: requests under way, or about to be.
        used: when it was got or asked last, by the pool's clock.
        expires: when it leaves, by that clock; None for never.
    """

    name: str
    where: str
    keep_alive_s: float
    bytes: int = 0
    worker: Worker | None = None
    loading: Task[Worker] | None = None
    running: int = 0
    used: float = 0.0
    expires: float | None = None

    def rest(self, now: float, least_s: float) -> None:
        """Nobody asks it any more, or somebody less."""
        self.used = now
        self.expires = self.leaves(now, least_s)

    def leaves(self, now: float, least_s: float = 0.0) -> float | None:
        """When it would leave if nobody asked from now on; `least_s` comes before its own time."""
        return None if self.keep_alive_s < 0 else now + max(self.keep_alive_s, least_s)

    @property
    def counted(self) -> int:
        """Bytes that it is counted with: what it needs, or has, if that is more."""
        process = 0 if self.worker is None else self.worker.process
        return max(self.bytes, (resident_bytes(process) if process else None) or 0)
