"""How a model is served on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from edgewise.hosting.base import Json
from edgewise.ray.prefixes import PAGES, Balance
from edgewise.server.operations.drain import DRAIN_SECONDS
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

ROUTINGS = ("prefix", "load", "turns")
"""How the replica of a request is chosen."""
MAX_REPLICAS = 1024
MAX_PAGES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """How a model is served on a cluster.

    Attributes:
        name: that clients ask for it by. Default: the bundle's own, or the repository's at a hub.
        device, program: what each node runs on, see `edgewise.Engine`. Default: each picks the best
            program of the bundle for what it has, which begins with the CPU.
        threads: for kernels on the CPU, of each replica. Default: `cpus`, at least 1.
        context: tokens of prompt and answer together, at most. Default: all that the bundle allows.
        settings: of `edgewise.Settings`, by name.
        trust: load native code whoever compiled it.
        vouched: digests of the native programs that nodes may load. Default: those of the bundle
            that whoever deploys it has compiled, see `edgewise.ray.vouched`.
        replicas: of the model at least.
        most_replicas: at most. Default: `replicas`, which never change then.
        full: requests at a replica that it is made for, as a share of those that it runs at once:
            with more on average there are to be more replicas, with fewer, fewer.
        kv_full: share of its KV pages in use that it is made for, in the same way.
        up_s, down_s: seconds for which more replicas, or fewer, must have been wanted.
        cpus, gpus: of a replica, as Ray counts them.
        resources: others of a replica, by name.
        routing: ``prefix`` sends a request where the beginning of its prompt was computed; ``load``
            where less is to do, of two replicas by chance, which is Ray's own; ``turns`` to one
            after the other.
        busier, spare: with ``prefix``, a replica has at most `busier` times the requests of the one
            that has the fewest, or `spare` more.
        pages: of KV of a replica that its router remembers, at most.
        doors: replicas of what speaks HTTP, makes prompts of messages, and routes.
        door_cpus: of each of those. Default: 0, so that replicas may have all that a node has: a
            door waits more than it computes.
        api_key: that clients have to send. Default: ``EDGEWISE_API_KEY`` where a door runs.
        hosts: names that clients reach the cluster by, besides those that every machine has.
        origins: of pages that may ask, as browsers send them.
        drain_s: seconds that answers under way have when a replica is to go.
    """

    name: str | None = None
    device: str | None = None
    program: str | None = None
    threads: int | None = None
    context: int | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)
    trust: bool = False
    vouched: tuple[str, ...] | None = None
    replicas: int = 1
    most_replicas: int | None = None
    full: float = 1.0
    kv_full: float = 0.8
    up_s: float = 10.0
    down_s: float = 300.0
    cpus: float = 1.0
    gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    routing: str = "prefix"
    busier: float = Balance.factor
    spare: int = Balance.spare
    pages: int = PAGES
    doors: int = 1
    door_cpus: float = 0.0
    api_key: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    drain_s: float = DRAIN_SECONDS

    def __post_init__(self) -> None:
        """Raise InputError ``input.option`` for a value out of range."""
        for name, (kind, low, high) in _NUMBERS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            number = isinstance(value, kind) and not isinstance(value, bool)
            if not (number and low <= value <= high):
                raise _refused(name, value, f"from {low:,} to {high:,}")
        if self.routing not in ROUTINGS:
            raise _refused("routing", self.routing, f"one of {', '.join(ROUTINGS)}")
        if not isinstance(self.trust, bool):
            raise _refused("trust", self.trust, "True or False")
        for name in ("hosts", "origins", "vouched"):
            value = getattr(self, name)
            if value is not None and (
                not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value)
            ):
                raise _refused(name, value, "a list of texts")
        if self.most_replicas is not None and self.most_replicas < self.replicas:
            raise _refused("most_replicas", self.most_replicas, f"at least {self.replicas}")

    @property
    def scales(self) -> bool:
        """Whether replicas come and go."""
        return self.most_replicas is not None and self.most_replicas > self.replicas

    @property
    def kernel_threads(self) -> int:
        """Threads of a replica: a node has several, and each would take all processors."""
        return max(int(self.cpus), 1) if self.threads is None else self.threads

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ServeOptions:
        """The options of a configuration file.

        Raises:
            InputError: ``input.option`` for a name or a value that there is not.
        """
        known = {one.name for one in fields(cls)}
        if unknown := sorted(map(str, given.keys() - known)):
            raise InputError(
                f"There is no option {shorten(unknown[0])}.",
                remedy=f"There are {', '.join(sorted(known))}.",
                code="input.option",
            )
        lists = {name: tuple(v) for name, v in given.items() if isinstance(v, list)}
        return cls(**{**given, **lists})


_REAL = (int, float)
_NUMBERS: Mapping[str, tuple[Any, float, float]] = {
    "threads": (int, 1, 4096),
    "context": (int, 2, 1 << 31),
    "replicas": (int, 1, MAX_REPLICAS),
    "most_replicas": (int, 1, MAX_REPLICAS),
    "full": (_REAL, 0.01, 1 << 20),
    "kv_full": (_REAL, 0.01, 1),
    "up_s": (_REAL, 0, 86400),
    "down_s": (_REAL, 0, 86400),
    "cpus": (_REAL, 0, 4096),
    "gpus": (_REAL, 0, 64),
    "busier": (_REAL, 1, 1 << 20),
    "spare": (int, 0, 1 << 20),
    "pages": (int, 1, MAX_PAGES),
    "doors": (int, 1, MAX_REPLICAS),
    "door_cpus": (_REAL, 0, 4096),
    "drain_s": (_REAL, 0, 3600),
}
_OPTIONAL = ("threads", "context", "most_replicas")


def _refused(name: str, value: object, wanted: str) -> InputError:
    return InputError(f"{name} is {shorten(value)}; it must be {wanted}.", code="input.option")
