"""Every index of a kernel, proven to fit the integers that it is computed in.

TVM multiplies the indices of an element with what each counts, in the type of the indices, and a
sum beyond 2**31 is an address somewhere else. So nothing is compiled before each sum and product
that an index, a loop's length or a guard follows from is known to fit its type, whatever a step is.
Ranges start at constants, at loops and threads, and at what the host promises of its buffers
(`function.Arg`); of everything else in memory all that its type can hold is possible. A register
has the ranges of all that is stored in it, one that is counted up as much as its loops let it.

What is gone through is the kernel as it was written. The passes that come later only regroup the
terms of an index, and narrow no integer which they cannot prove to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import tvm_ffi
from tvm import DataType
from tvm.ir import Expr
from tvm.ir.expr import Call, StringImm, TensorLoad, Var
from tvm.ir.prim import expr as e
from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.places import (
    Around,
    Element,
    Id,
    Place,
    Said,
    Store,
    Threads,
    Use,
    element_of,
    facts_of,
    loads_of,
    one_of,
    places_of,
)
from edgewise_compiler.kernels.ranges import OPERATIONS, Range, joined, type_range
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.state import PAGES

OPTIONS: Mapping[str, str] = {
    "n": "--prefill-chunk",
    "b": "--max-batch",
    "r": "--max-batch",
    "t": "--context",
    PAGES: "pool of pages",
}
"""What bounds each symbol of a plan."""

_GROWING = (e.Add, e.Sub, e.Mul, e.LShift)
DATA = "data"
"""What ranges depend on that are those of a type, since memory or a call may give anything."""

_BOOL = Range(0, 1)

_ALMOST_ANYTHING = Range(-(1 << 28), 1 << 28)
"""So far from the ends of int32 that sums with it are none."""

_MOST = 300
"""Registers that are looked at for one index. After them a register may be anything: sampling has
many that follow from each other, and no index that needs to know."""

_TRIES = 4
"""Ranges that are tried for a register which follows from itself."""


class BeyondError(Exception):
    """An integer of a kernel may be one that its type does not hold.

    Attributes:
        found: what it may be.
        dtype: its type.
        elements: whether it is the number of an element of a buffer, counted from the first, and no
            integer that the kernel itself computes.
    """

    def __init__(self, found: Range, dtype: str, *, elements: bool = False) -> None:
        super().__init__(f"{found.low:,} to {found.high:,} is more than {dtype} holds")
        self.found = found
        self.dtype = dtype
        self.elements = elements


def beyond(
    function: PrimFunc,
    held: Sequence[tuple[Range, ...]],
    grid: Mapping[str, frozenset[str]] | None = None,
    calls: Mapping[str, Range] | None = None,
) -> Iterator[tuple[str, BeyondError]]:
    """The integers of a kernel that may be too large, each with the buffer that it is an index of.

    Args:
        held: for each argument what the integers in it are, column by column and the last for all
            others; () if they may be anything.
        grid: for ``blockIdx.x`` and ``blockIdx.y`` the plan's symbols that the grid follows from.
        calls: what calls give, by the name of what they call.
    """
    proof = _Proof(function, held, grid or {}, calls or {})
    places = proof.places
    for said in places.loops:
        try:
            proof.length(said)
        except BeyondError as found:
            yield str(said.value), found
    for use in places.uses:
        try:
            proof.use(use)
        except BeyondError as found:
            yield use.buffer.name, found


def refusal(kernel: str, where: str, found: BeyondError) -> UnsupportedError:
    """The error of a kernel whose integers may be too large.

    Args:
        where: the buffer that they are an index of, or the expression that they are in.
    """
    options = dict.fromkeys(OPTIONS[s] for s in sorted(found.found.of) if s != DATA)
    largest = max(found.found.high, -found.found.low)
    return UnsupportedError(
        f"The kernel {kernel!r} counts up to {largest:,} for {where!r}, more than {found.dtype} "
        "holds.",
        remedy=f"Choose a smaller {' or '.join(options)}."
        if options
        else "The model itself is too large for this target: compile it for another one.",
        code="unsupported.index",
    )


class _NothingYetError(Exception):
    """What is asked for follows from a register in which nothing has been stored yet."""


class _Proof:
    """The ranges of one kernel's integers. What is asked for is computed once."""

    def __init__(
        self,
        function: PrimFunc,
        held: Sequence[tuple[Range, ...]],
        grid: Mapping[str, frozenset[str]],
        calls: Mapping[str, Range],
    ) -> None:
        self.places = places_of(function)
        self._grid = grid
        self._calls = calls
        self._held = {
            hash(argument): ranges for argument, ranges in zip(function.params, held, strict=True)
        }
        self._variables: dict[Id, Range] = {}
        self._registers: dict[Element, Range | None] = {}
        self._left = _MOST
        self._asked: set[Element] = set()
        self._strides: dict[Id, tuple[list[int], bool]] = {}

    def length(self, said: Said) -> None:
        """Raise BeyondError where the length of a loop does not fit."""
        self._left = _MOST
        self.range(said.value, said.place)

    def use(self, use: Use) -> None:
        """Raise BeyondError where an index of an element, or its number, does not fit."""
        self._left = _MOST
        ranges = [self.range(index, use.place) for index in use.indices]
        for index, found in zip(use.indices, ranges, strict=True):
            if DATA in found.of and _of_type(_dtype(index)).within(found):
                raise BeyondError(found, _dtype(index))
        if len(ranges) == 1:
            return
        strides, wide = self._layout(use.buffer)
        wide = wide or _dtype(use.indices[0]) == "int64"
        dtype = "int64" if wide else "int32"
        terms = [
            Range(one.low * stride, one.high * stride, one.of)
            for one, stride in zip(ranges, strides, strict=True)
        ]
        total = Range(
            sum(term.low for term in terms),
            sum(term.high for term in terms),
            frozenset().union(*(term.of for term in terms)),
        )
        for found in (total, *terms):
            if not found.within(_of_type(dtype)):
                raise BeyondError(found, dtype, elements=True)

    def range(self, value: Expr, place: Place) -> Range:
        """What an integer expression may be where it stands: all lanes of it, if it has several.

        Raises:
            BeyondError: a sum or a product in it may be more than its type holds.
        """
        kind = type(value)
        if kind is e.IntImm:
            return Range(int(value.value), int(value.value))
        if kind is Var:
            return self._refined(value, self._variable(value), place)
        if kind is TensorLoad:
            return self._refined(value, self._element(value, place), place)
        operation = OPERATIONS.get(kind)
        if operation is not None:
            a, b = self.range(value.a, place), self.range(value.b, place)
            return self._result(value, operation(a, b), a.of | b.of, place)
        follow = _FOLLOWED.get(kind)
        return follow(self, value, place) if follow else _anything(_dtype(value))

    def _result(
        self, value: Any, ends: tuple[int, int] | None, of: frozenset[str], place: Place
    ) -> Range:
        if ends is None:
            return replace(_of_type(_dtype(value)), of=of | {DATA})
        found = Range(*ends, of)
        kind = type(value)
        if kind is e.Sub:
            found = found.down_to(_least(value, found.low, place))
        if kind in _GROWING and not found.within(_of_type(_dtype(value))):
            raise BeyondError(found, _dtype(value))
        return found

    def _select(self, value: e.Select, place: Place) -> Range:
        sides = []
        for side, holds in ((value.true_value, True), (value.false_value, False)):
            said = facts_of(value.condition, place, self.places.bound, holds=holds)
            sides.append(self.range(side, replace(place, facts=(*place.facts, *said))))
        return joined(*sides)

    def _cast(self, value: e.Cast, place: Place) -> Range:
        own = _anything(_dtype(value))
        if _dtype(value.value).startswith("float"):
            return own
        found = self.range(value.value, place)
        return found if found.within(own) else replace(own, of=own.of | found.of)

    def _ramp(self, value: e.Ramp, place: Place) -> Range:
        base, stride = self.range(value.base, place), self.range(value.stride, place)
        steps = int(value.lanes) - 1
        low = base.low + min(0, stride.low * steps)
        found = Range(low, base.high + max(0, stride.high * steps), base.of | stride.of)
        if not found.within(_of_type(_dtype(value))):
            raise BeyondError(found, _dtype(value))
        return found

    def _broadcast(self, value: e.Broadcast, place: Place) -> Range:
        return self.range(value.value, place)

    def _shuffle(self, value: e.Shuffle, place: Place) -> Range:
        found = [self.range(vector, place) for vector in value.vectors]
        for one in found[1:]:
            found[0] = joined(found[0], one)
        return found[0]

    def _call(self, value: Call, place: Place) -> Range:
        name = value.args[0] if len(value.args) else None
        known = self._calls.get(str(name.value)) if isinstance(name, StringImm) else None
        return known or _anything(_dtype(value))

    def _variable(self, variable: Var) -> Range:
        key = hash(variable)
        found = self._variables.get(key)
        if found is None:
            found = self._variables[key] = self._bound(variable)
        return found

    def _bound(self, variable: Var) -> Range:
        said = self.places.bound.get(hash(variable))
        if isinstance(said, Threads):
            return Range(0, said.extent - 1, self._grid.get(said.tag, frozenset()))
        if isinstance(said, Said):
            return self.range(said.value, said.place)
        if said is None or said.first is None or not isinstance(said.rounds, Expr):
            return _anything(_dtype(variable))
        first, rounds = (self.range(part, said.place) for part in (said.first, said.rounds))
        last = first.high + max(rounds.high - 1, 0)
        return Range(first.low, last, first.of | rounds.of)

    def _element(self, load: TensorLoad, place: Place) -> Range:
        buffer = load.source
        held = self._held.get(hash(buffer))
        if held is None:
            return self._register(buffer, element_of(load))
        if not held:
            return _anything(_dtype(load))
        if len(held) == 1:
            return held[0]
        column = self.range(load.indices[-1], place)
        last = len(held) - 1
        found = held[max(0, min(column.low, last))]
        for one in held[max(0, column.low) : min(column.high, last) + 1]:
            found = joined(found, one)
        return found

    def _register(self, buffer: Expr, element: Element) -> Range:
        if element in self._registers:
            self._asked.add(element)
            found = self._registers[element]
            if found is None:
                raise _NothingYetError
            return found
        whole = _anything(str(DataType(str(buffer.dtype)).with_lanes(1)))
        stores = [
            store
            for store in self.places.stores.get(element[0], ())
            if one_of(element, [(element[0], store.field)])
        ]
        if not stores or not self._left:
            return whole
        self._left -= 1
        try:
            found = self._settled(element, stores) or self._counted(element, stores, whole)
        except BeyondError as error:
            if DATA not in error.found.of:
                raise
            found = whole
        except _NothingYetError:
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
        known = self._variables, self._registers, self._asked
        self._variables, self._registers = self._variables.copy(), self._registers.copy()
        self._registers[element] = found
        self._asked = set()
        try:
            more = self._of_stores(stores)
            own = element in self._asked
            if not own:
                del self._registers[element]
                known = self._variables, self._registers, known[2]
            return more, own
        finally:
            self._asked |= known[2]
            self._variables, self._registers, _ = known

    def _of_stores(self, stores: Sequence[Store]) -> Range:
        found: Range | None = None
        for store in stores:
            with suppress(_NothingYetError):
                one = self.range(store.value, store.place)
                found = one if found is None else joined(found, one)
        if found is None:
            raise _NothingYetError
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
            limit = self._refined(own, whole, store.place)
            least = limit.low + change.low
            if type(store.value) is e.Sub:
                least = _least(store.value, least, store.place)
            ends.append((least, limit.high + change.high))
        found = Range(
            min(first.low, *(max(low, least) for least, _ in ends)),
            max(first.high, *(min(high, most) for _, most in ends)),
            of,
        )
        if not found.within(whole):
            raise BeyondError(found, _dtype(grown[0].value))
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

    def _refined(self, value: Expr, found: Range, place: Place) -> Range:
        """A range within what the facts of a place say of a variable or an element."""
        key = _key(value) if place.facts else None
        if key is None:
            return found
        for fact in place.facts:
            try:
                if _key(fact.small) == key:
                    found = found.up_to(self.range(fact.large, fact.said).high - fact.strict)
                if _key(fact.large) == key:
                    found = found.down_to(self.range(fact.small, fact.said).low + fact.strict)
            except BeyondError:  # of a guard, which is a finding of its own
                continue
        return found

    def _layout(self, buffer: Expr) -> tuple[list[int], bool]:
        """How many elements each index counts, and whether in 64 bits."""
        found = self._strides.get(hash(buffer))
        if found is None:
            strides, wide, extent = [1], False, 1
            for size in reversed(buffer.shape[1:]):
                extent *= int(size)
                wide = wide or _dtype(size) == "int64"
                strides.append(extent)
            found = self._strides[hash(buffer)] = strides[::-1], wide
        return found


_FOLLOWED: Mapping[type, Callable[[_Proof, Any, Place], Range]] = {
    e.Select: _Proof._select,
    e.Cast: _Proof._cast,
    e.Ramp: _Proof._ramp,
    e.Broadcast: _Proof._broadcast,
    e.Shuffle: _Proof._shuffle,
    Call: _Proof._call,
}
"""Of other expressions their type says all that is known."""


@cache
def _anything(dtype: str) -> Range:
    return replace(_of_type(dtype), of=frozenset((DATA,)))


@cache
def _of_type(dtype: str) -> Range:
    kind = DataType(dtype)
    element = str(kind.with_lanes(1))
    return _BOOL if element == "bool" else type_range(kind.bits, signed=element.startswith("int"))


def _dtype(value: Any) -> str:
    return str(value.ty)


def _key(value: Expr) -> tuple[Any, ...] | None:
    """What two mentions of a variable, or of an element, have in common."""
    kind = type(value)
    if kind is e.IntImm:
        return ("number", int(value.value))
    if kind is Var:
        return ("variable", hash(value))
    if kind is not TensorLoad:
        return None
    keys = tuple(_key(index) for index in value.indices)
    return None if None in keys else ("element", hash(value.source), *keys)


def _is(value: Expr, element: Element) -> bool:
    return type(value) is TensorLoad and element_of(value) == element


def _least(difference: e.Sub, low: int, place: Place) -> int:
    """The lowest value of a difference, whose sides may have been compared."""
    for fact in place.facts:
        if _same(fact.small, difference.b) and _same(fact.large, difference.a):
            low = max(low, int(fact.strict))
    return low


def _same(a: Expr, b: Expr) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))


def _begins(nest: Sequence[Around], other: Sequence[Around]) -> bool:
    """Whether the outer loops and branches of `nest` are `other`."""
    return len(other) <= len(nest) and all(a is b for a, b in zip(nest, other, strict=False))
