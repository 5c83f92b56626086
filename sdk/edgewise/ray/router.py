"""How Ray Serve chooses the replica of a request: `prefixes`, as one of its request routers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from ray.serve.request_router import (
    PendingRequest,
    ReplicaID,
    ReplicaResult,
    RequestRouter,
    RunningReplica,
)

from edgewise.ray.prefixes import PAGES, Balance, PrefixTable, ranked
from edgewise.ray.replica import KV_PAGES, Way


class PrefixRouter(RequestRouter):
    """Sends a request where the beginning of its prompt was computed, see `prefixes.ranked`."""

    def initialize_state(
        self,
        pages: int = PAGES,
        factor: float = Balance.factor,
        spare: int = Balance.spare,
    ) -> None:
        """Called by Ray with what `serving.app` says; see `PrefixTable` and `Balance`."""
        self._table = PrefixTable[str](pages)
        self._balance = Balance(factor, spare)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Called by Ray when replicas come and go, and with what they say."""
        super().update_replicas(replicas)
        self._table.only([_name(one.replica_id) for one in replicas])
        for one in replicas:
            if pages := one.routing_stats.get(KV_PAGES):
                self._table.limit(_name(one.replica_id), int(pages))

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Called by Ray, again where those were full that this named."""
        keys = _keys(pending_request)
        there = {_name(one.replica_id): one for one in candidate_replicas}
        order = ranked(self._table, keys, await self._loads(there), self._balance)
        if order:
            # At once: those that come while this one is on its way begin alike, perhaps.
            self._table.add(order[0], keys)
        return [[there[name]] for name in order]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """Called by Ray: it may have been another one that had room."""
        self._table.add(_name(replica_id), _keys(pending_request))

    async def _loads(self, there: dict[str, RunningReplica]) -> dict[str, float]:
        """Requests under way at each, as Ray knows them; asked where it does not."""
        known = {
            name: self.replica_queue_len_cache.get(one.replica_id) for name, one in there.items()
        }
        asked = [there[name] for name, length in known.items() if length is None]
        if asked:
            for one, length in await self._probe_queue_lens(asked, 0):
                known[_name(one.replica_id)] = length
        # Who does not answer is the last to be asked; Ray removes those that have died.
        return {
            name: float("inf") if length is None else length
            for name, length in known.items()
            if there[name].replica_id in self.curr_replicas
        }


class TurnRouter(RequestRouter):
    """Sends requests to one replica after the other, which others are compared with."""

    def initialize_state(self) -> None:
        """Called by Ray."""
        self._turn = count()

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Called by Ray."""
        there = sorted(candidate_replicas, key=lambda one: _name(one.replica_id))
        first = next(self._turn) % len(there) if there else 0
        return [[one] for one in (*there[first:], *there[:first])]


def _keys(request: Any) -> Sequence[bytes]:
    way = request.args[0] if request is not None and request.args else None
    return way.keys if isinstance(way, Way) else ()


def _name(replica: ReplicaID) -> str:
    return str(replica.unique_id)
