"""Which replica holds which beginnings of prompts, as far as who routes to them knows.

Prompts are known by the keys of their pages (`edgewise_runtime.kv.keys`), which are chained: who
holds a page holds all that come before it. A replica is thought to hold what was sent to it last,
as many pages as it may be thought to have; what an engine drops first, the ends of what was used
longest ago, is forgotten first here, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Generic, TypeVar

from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.keys import page_key

PAGES = 1 << 16
"""Of a replica, that are remembered at most: some 10 MB of memory."""

R = TypeVar("R", bound=str)


def page_keys(root: bytes, tokens: Sequence[int], page_tokens: int) -> tuple[bytes, ...]:
    """The keys of the pages that a prompt could find computed: the full ones before its last token.

    Args:
        root: of the model and of what keeps tenants apart, see `kv.keys.salted`.
    """
    keys: list[bytes] = []
    for start, end in pairwise(range(0, len(tokens), page_tokens)):
        root = page_key(root, tokens[start:end])
        keys.append(root)
    return tuple(keys)


class PrefixTable(Generic[R]):
    """The pages that each of some replicas holds. For one thread."""

    def __init__(self, pages: int = PAGES) -> None:
        """A table of no replicas; `pages` of one are remembered at most."""
        self._most = pages
        self._held: dict[R, OrderedDict[bytes, None]] = {}
        self._limits: dict[R, int] = {}

    def __iter__(self) -> Iterator[R]:
        """The replicas that there are."""
        return iter(self._held)

    def size(self, replica: R) -> int:
        """Pages of a replica that are remembered."""
        return len(self._held.get(replica, ()))

    def only(self, replicas: Collection[R]) -> None:
        """There are these replicas now: forget the others, and begin with those that are new."""
        gone = self._held.keys() - set(replicas)
        for replica in gone:
            del self._held[replica]
            self._limits.pop(replica, None)
        for replica in replicas:
            self._held.setdefault(replica, OrderedDict())

    def limit(self, replica: R, pages: int) -> None:
        """A replica has so many pages in all."""
        if replica in self._held:
            self._limits[replica] = max(pages, 0)
            self._shrink(replica)

    def holds(self, replica: R, keys: Sequence[bytes]) -> int:
        """How many of a prompt's first pages a replica holds; looks at a logarithm of them."""
        held = self._held.get(replica)
        if not held:
            return 0
        least, most = 0, len(keys)
        while least < most:
            middle = (least + most) // 2
            if keys[middle] in held:
                least = middle + 1
            else:
                most = middle
        return least

    def add(self, replica: R, keys: Sequence[bytes]) -> None:
        """A prompt goes to a replica, which then holds its pages. Nothing for one that has gone."""
        held = self._held.get(replica)
        if held is None:
            return
        # From the end: what comes before a page was always used after it, and stays for longer.
        for key in reversed(keys):
            held[key] = None
            held.move_to_end(key)
        self._shrink(replica)

    def _shrink(self, replica: R) -> None:
        held = self._held[replica]
        most = min(self._most, self._limits.get(replica, self._most))
        while len(held) > most:
            held.popitem(last=False)


@dataclass(frozen=True)
class Balance:
    """How much busier a replica may be that holds a prompt's beginning.

    Attributes:
        factor: times as many requests as the least busy one has, and
        spare: at least so many more than that.
    """

    factor: float = 2.0
    spare: int = 2

    def __post_init__(self) -> None:
        """Raise InputError ``input.option`` for what balances nothing."""
        if not (self.factor >= 1 and self.spare >= 0):
            raise InputError(
                f"A replica may be {self.factor} times as busy, and by {self.spare} requests.",
                remedy="The factor is at least 1, the other at least 0.",
                code="input.option",
            )

    def bound(self, least: float) -> float:
        """Requests that a replica may have beside one with `least`."""
        return max(self.factor * least, least + self.spare)


def ranked(
    table: PrefixTable[R], keys: Sequence[bytes], loads: Mapping[R, float], balance: Balance
) -> list[R]:
    """The replicas in the order in which a prompt is to be offered to them.

    First those that are not too busy, of them the one that holds most of its beginning, of those
    the least busy. Replicas that are alike in that are in an order of the prompt's first page, so
    that routers that know nothing of each other send what begins alike to the same one.

    Args:
        loads: requests under way, by replica.
    """
    if not loads:
        return []
    bound = balance.bound(min(loads.values()))
    first = keys[0] if keys else b""

    def order(replica: R) -> tuple[bool, float, float, bytes]:
        load, drawn = loads[replica], _drawn(first, replica)
        if load > bound:
            return True, load, 0.0, drawn
        return False, -table.holds(replica, keys), load, drawn

    return sorted(loads, key=order)


def _drawn(first: bytes, replica: str) -> bytes:
    """A number of a replica for a page (rendezvous hashing; Thaler and Ravishankar, "Using
    Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on Networking, 1998)."""
    return blake2b(first + replica.encode(), digest_size=8).digest()
