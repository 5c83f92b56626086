"""The ranges of registers: of all that is stored in them, in loops as often as those are run.

A register that follows from itself has a range that it never leaves: what is stored in it while it
has one is within that one again (P. Cousot, R. Cousot, "Abstract interpretation", POPL 1977). Where
none is found so, as for sums, loops say how often something is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tvm import DataType
from tvm.ir import Expr
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as e

from edgewise_compiler.kernels.places import (
    Around,
    Element,
    Id,
    Place,
    Places,
    Store,
    element_of,
    loads_of,
    one_of,
)
from edgewise_compiler.kernels.ranges import (
    DATA,
    BeyondError,
    Range,
    anything,
    dtype_of,
    joined,
)

_ALMOST_ANYTHING = Range(-(1 << 28), 1 << 28)
"""So far from the ends of int32 that sums with it are none."""

MOST = 300
"""Registers that are looked at for one index. After them a register may be anything: sampling has
many that follow from each other, and no index that needs to know."""

_TRIES = 4
"""Ranges that are tried for a register which follows from itself."""


class NothingYetError(Exception):
    """What is asked for follows from a register in which nothing has been stored yet."""


@dataclass(eq=False)
class Registers:
    """The ranges of a kernel's registers, and of variables that may follow from them.

    Attributes:
        places: the kernel.
        range: of an expression, where it stands.
        refined: a range within what is said at a place of a variable or an element.
        least: the lowest value of a difference at a place, not below the one that is known.
        variables: by the variable, filled by whoever asks for them.
        left: how many registers may still be looked at.
    """

    places: Places
    range: Callable[[Expr, Place], Range]
    refined: Callable[[Expr, Range, Place], Range]
    least: Callable[[e.Sub, int, Place], int]
    variables: dict[Id, Range] = field(default_factory=dict)
    left: int = MOST
    _registers: dict[Element, Range | None] = field(default_factory=dict)
    _asked: set[Element] = field(default_factory=set)

    def element(self, buffer: Expr, element: Element) -> Range:
        """The range of an element of a register.

        Raises:
            BeyondError: a sum that is stored in it may be more than its type holds.
        """
        if element in self._registers:
            self._asked.add(element)
            found = self._registers[element]
            if found is None:
                raise NothingYetError
            return found
        whole = anything(str(DataType(str(buffer.dtype)).with_lanes(1)))
        stores = [
            store
            for store in self.places.stores.get(element[0], ())
            if one_of(element, [(element[0], store.field)])
        ]
        if not stores or not self.left:
            return whole
        self.left -= 1
        try:
            found = self._settled(element, stores) or self._counted(element, stores, whole)
        except BeyondError as error:
            if DATA not in error.found.of:
                raise
            found = whole
        except NothingYetError:
            if None in self._registers.values():  # another register's turn comes first
                raise
            found = whole
        self._registers[element] = found
        return found

    def _settled(self, element: Element, stores: Sequence[Store]) -> Range | None:
        """The range of a register; of one that follows from itself a range that it never leaves, if
        one is found soon."""
        found: Range | None = None
        for _ in range(_TRIES):
            more, own = self._after(element, found, stores)
            if not own or (found is not None and more.within(found)):
                return more
            found = more if found is None else joined(found, more)
        if found is None:
            return None
        # What guards and bounds let it come to from almost anything.
        try:
            bound, _ = self._after(element, _ALMOST_ANYTHING, stores)
            for low in (found.low, bound.low):
                candidate = Range(low, max(found.high, bound.high), found.of | bound.of)
                if self._after(element, candidate, stores)[0].within(candidate):
                    return candidate
        except BeyondError:
            pass
        return None

    def _after(
        self, element: Element, found: Range | None, stores: Sequence[Store]
    ) -> tuple[Range, bool]:
        """What is stored in a register that has a range, None for nothing yet; and whether that
        follows from the register."""
        known = self.variables, self._registers, self._asked
        self.variables, self._registers = self.variables.copy(), self._registers.copy()
        self._registers[element] = found
        self._asked = set()
        try:
            more = self._of_stores(stores)
            own = element in self._asked
            if not own:
                del self._registers[element]
                known = self.variables, self._registers, known[2]
            return more, own
        finally:
            self._asked |= known[2]
            self.variables, self._registers, _ = known

    def _of_stores(self, stores: Sequence[Store]) -> Range:
        found: Range | None = None
        for store in stores:
            with suppress(NothingYetError):
                one = self.range(store.value, store.place)
                found = one if found is None else joined(found, one)
        if found is None:
            raise NothingYetError
        return found

    def _counted(self, element: Element, stores: Sequence[Store], whole: Range) -> Range:
        """The range of a register that sums are added to, or taken from, in loops."""
        firsts: list[Store] = []
        grown: list[Store] = []
        for store in stores:
            reads = map(element_of, loads_of(store.value))
            (grown if one_of(element, reads) else firsts).append(store)
        first, of_itself = self._after(element, None, firsts)
        if of_itself:
            return whole
        low, high, of = first.low, first.high, first.of
        ends = []
        for store in grown:
            changed = self._change(element, store)
            if changed is None:
                return whole
            own, change = changed
            rounds = self._rounds(store, firsts)
            most = whole.high - whole.low if rounds is None else rounds
            low += min(0, change.low * most)
            high += max(0, change.high * most)
            of |= change.of
            limit = self.refined(own, whole, store.place)
            least = limit.low + change.low
            if type(store.value) is e.Sub:
                least = self.least(store.value, least, store.place)
            ends.append((least, limit.high + change.high))
        found = Range(
            min(first.low, *(max(low, least) for least, _ in ends)),
            max(first.high, *(min(high, most) for _, most in ends)),
            of,
        )
        if not found.within(whole):
            raise BeyondError(found, dtype_of(grown[0].value))
        return found

    def _change(self, element: Element, store: Store) -> tuple[Expr, Range] | None:
        """The register as a store reads it, and what the store adds to it; None for other sums."""
        kind = type(store.value)
        if kind not in (e.Add, e.Sub):
            return None
        own, other = store.value.a, store.value.b
        if kind is e.Add and not _is(own, element):
            own, other = other, own
        if not _is(own, element) or one_of(element, map(element_of, loads_of(other))):
            return None
        change = self.range(other, store.place)
        return own, change if kind is e.Add else Range(-change.high, -change.low, change.of)

    def _rounds(self, store: Store, firsts: Sequence[Store]) -> int | None:
        """How often a store is run after one of `firsts`, at most; None without an end."""
        outside = 0
        for first in firsts:
            nest = first.place.nest
            if first.place.number < store.place.number and _begins(store.place.nest, nest):
                outside = max(outside, len(nest))
        rounds = 1
        for around in store.place.nest[outside:]:
            if around.rounds is None:
                return None
            if isinstance(around.rounds, Expr):
                rounds *= max(self.range(around.rounds, around.place).high, 0)
        return rounds


def _is(value: Expr, element: Element) -> bool:
    return type(value) is TensorLoad and element_of(value) == element


def _begins(nest: Sequence[Around], other: Sequence[Around]) -> bool:
    """Whether the outer loops and branches of `nest` are `other`."""
    return len(other) <= len(nest) and all(a is b for a, b in zip(nest, other, strict=False))
