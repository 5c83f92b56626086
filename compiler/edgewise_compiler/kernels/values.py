"""The ranges of a kernel's integer expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm.ir import Expr
from tvm.ir.expr import Call, StringImm, TensorLoad, Var
from tvm.ir.prim import expr as e
from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.places import (
    Place,
    Said,
    Threads,
    Use,
    element_of,
    facts_of,
    key_of,
    places_of,
)
from edgewise_compiler.kernels.ranges import (
    DATA,
    OPERATIONS,
    BeyondError,
    Range,
    anything,
    dtype_of,
    joined,
    of_type,
)
from edgewise_compiler.kernels.registers import MOST, Registers

_GROWING = (e.Add, e.Sub, e.Mul, e.LShift)


class Values:
    """The ranges of one kernel's integers.

    Args:
        held, grid, calls: see `indices.beyond`.
    """

    def __init__(
        self,
        function: PrimFunc,
        held: Sequence[tuple[Range, ...]],
        grid: Mapping[str, frozenset[str]],
        calls: Mapping[str, Range],
    ) -> None:
        self.places = places_of(function)
        self._registers = Registers(self.places, self.range, self._refined, _least)
        self._grid = grid
        self._calls = calls
        self._held = {
            hash(argument): ranges for argument, ranges in zip(function.params, held, strict=True)
        }

    def check_length(self, said: Said) -> None:
        """Raise BeyondError where the length of a loop does not fit."""
        self._registers.left = MOST
        self.range(said.value, said.place)

    def check_use(self, use: Use) -> None:
        """Raise BeyondError where an index of an element, or its number, does not fit."""
        self._registers.left = MOST
        ranges = [self.range(index, use.place) for index in use.indices]
        for index, found in zip(use.indices, ranges, strict=True):
            if DATA in found.of and of_type(dtype_of(index)).within(found):
                raise BeyondError(found, dtype_of(index))
        if len(ranges) > 1:
            _check_number(use, ranges)

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
        return follow(self, value, place) if follow else anything(dtype_of(value))

    def _result(
        self, value: Any, ends: tuple[int, int] | None, of: frozenset[str], place: Place
    ) -> Range:
        if ends is None:
            return replace(of_type(dtype_of(value)), of=of | {DATA})
        found = Range(*ends, of)
        kind = type(value)
        if kind is e.Sub:
            found = found.down_to(_least(value, found.low, place))
        if kind in _GROWING and not found.within(of_type(dtype_of(value))):
            raise BeyondError(found, dtype_of(value))
        return found

    def _select(self, value: e.Select, place: Place) -> Range:
        sides = []
        for side, holds in ((value.true_value, True), (value.false_value, False)):
            said = facts_of(value.condition, place, self.places.bound, holds=holds)
            sides.append(self.range(side, replace(place, facts=(*place.facts, *said))))
        return joined(*sides)

    def _cast(self, value: e.Cast, place: Place) -> Range:
        own = anything(dtype_of(value))
        if dtype_of(value.value).startswith("float"):
            return own
        found = self.range(value.value, place)
        return found if found.within(own) else replace(own, of=own.of | found.of)

    def _ramp(self, value: e.Ramp, place: Place) -> Range:
        base, stride = self.range(value.base, place), self.range(value.stride, place)
        steps = int(value.lanes) - 1
        low = base.low + min(0, stride.low * steps)
        found = Range(low, base.high + max(0, stride.high * steps), base.of | stride.of)
        if not found.within(of_type(dtype_of(value))):
            raise BeyondError(found, dtype_of(value))
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
        return known or anything(dtype_of(value))

    def _variable(self, variable: Var) -> Range:
        key = hash(variable)
        found = self._registers.variables.get(key)
        if found is None:
            found = self._bound(variable)
            self._registers.variables[key] = found
        return found

    def _bound(self, variable: Var) -> Range:
        said = self.places.bound.get(hash(variable))
        if isinstance(said, Threads):
            return Range(0, said.extent - 1, self._grid.get(said.tag, frozenset()))
        if isinstance(said, Said):
            return self.range(said.value, said.place)
        if said is None or said.first is None or not isinstance(said.rounds, Expr):
            return anything(dtype_of(variable))
        first, rounds = (self.range(part, said.place) for part in (said.first, said.rounds))
        last = first.high + max(rounds.high - 1, 0)
        return Range(first.low, last, first.of | rounds.of)

    def _element(self, load: TensorLoad, place: Place) -> Range:
        buffer = load.source
        held = self._held.get(hash(buffer))
        if held is None:
            return self._registers.element(buffer, element_of(load))
        if not held:
            return anything(dtype_of(load))
        if len(held) == 1:
            return held[0]
        column = self.range(load.indices[-1], place)
        last = len(held) - 1
        found = held[max(0, min(column.low, last))]
        for one in held[max(0, column.low) : min(column.high, last) + 1]:
            found = joined(found, one)
        return found

    def _refined(self, value: Expr, found: Range, place: Place) -> Range:
        """A range within what the facts of a place say of a variable or an element."""
        if not place.facts:
            return found
        begin = _beginning(value)
        near = [f for f in place.facts if any(k is not None and k[:2] == begin for k in f.keys)]
        key = key_of(value) if near else None
        if key is None:
            return found
        for fact in near:
            try:
                if fact.keys[0] == key:
                    found = found.up_to(self.range(fact.large, fact.said).high - fact.strict)
                if fact.keys[1] == key:
                    found = found.down_to(self.range(fact.small, fact.said).low + fact.strict)
            except BeyondError:  # such a guard says nothing
                continue
        return found


_FOLLOWED: Mapping[type, Callable[[Values, Any, Place], Range]] = {
    e.Select: Values._select,
    e.Cast: Values._cast,
    e.Ramp: Values._ramp,
    e.Broadcast: Values._broadcast,
    e.Shuffle: Values._shuffle,
    Call: Values._call,
}
"""Of other expressions their type says all that is known."""


def _check_number(use: Use, ranges: Sequence[Range]) -> None:
    """Raise BeyondError where the number of an element of a buffer does not fit."""
    wide, stride, terms = False, 1, []
    sizes = (*reversed(use.buffer.shape[1:]), None)
    for size, index in zip(sizes, reversed(ranges), strict=True):
        terms.append(Range(index.low * stride, index.high * stride, index.of))
        if size is not None:
            stride *= int(size)
            wide = wide or dtype_of(size) == "int64"
    total = Range(
        sum(term.low for term in terms),
        sum(term.high for term in terms),
        frozenset().union(*(term.of for term in terms)),
    )
    dtype = "int64" if wide or dtype_of(use.indices[0]) == "int64" else "int32"
    for found in (total, *terms):
        if not found.within(of_type(dtype)):
            raise BeyondError(found, dtype, elements=True)


def _beginning(value: Expr) -> tuple[str, int]:
    """What the key of a variable or of an element begins with."""
    if type(value) is Var:
        return ("variable", hash(value))
    return ("element", hash(value.source))


def _least(difference: e.Sub, low: int, place: Place) -> int:
    """The lowest value of a difference, whose sides may have been compared."""
    for fact in place.facts:
        if _same(fact.small, difference.b) and _same(fact.large, difference.a):
            low = max(low, int(fact.strict))
    return low


def _same(a: Expr, b: Expr) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))
