"""Where a kernel uses indices: its statements gone through once, with what holds at each place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import tvm_ffi
from tvm.ir import Expr
from tvm.ir.expr import TensorLoad, Var
from tvm.ir.prim import expr as e
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import (
    AttrStmt,
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    While,
)

from edgewise_runtime.errors import CompileError

Id: TypeAlias = int
"""A variable or a buffer: an object of TVM's is another one in Python each time it is asked for."""

Field: TypeAlias = "tuple[int | None, ...]"
"""The constant indices of an element; None stands for any index."""

Key: TypeAlias = "tuple[Any, ...]"
"""What two mentions of a variable, or of an element, have in common: a kind, the variable or the
buffer, and the keys of the indices."""

Element: TypeAlias = tuple[Id, Field]
"""An element of a buffer."""


class Fact(NamedTuple):
    """``small < large``, or ``<=`` where not `strict`.

    Attributes:
        said: where: what was known there of both sides.
        elements: what it was said of.
        keys: of both sides, see `key_of`.
    """

    small: Expr
    large: Expr
    strict: bool
    said: Place
    elements: frozenset[Element]
    keys: tuple[Key | None, Key | None]


@dataclass(frozen=True, eq=False)
class Around:
    """A loop, or a side of a branch.

    Attributes:
        place: where it stands.
        first: what its variable begins with, if it has one.
        rounds: how often it is run at most; None where that is not said.
    """

    place: Place
    first: Expr | None = None
    rounds: Expr | int | None = None


@dataclass(frozen=True, eq=False)
class Place:
    """A place in a kernel.

    Attributes:
        number: of two places in the same loops and branches the one that is run later has the
            larger one.
        nest: the loops and branches that it is in, from the outside.
        facts: what holds there.
    """

    number: int = 0
    nest: tuple[Around, ...] = ()
    facts: tuple[Fact, ...] = ()

    def inside(self, around: Around) -> Place:
        """The same place, as the beginning of a loop or a branch."""
        return Place(self.number, (*self.nest, around), self.facts)

    def without(self, written: Iterable[Element]) -> Place:
        """The place once these elements have been written."""
        if not self.facts or not written:
            return self
        kept = tuple(f for f in self.facts if not any(one_of(e, f.elements) for e in written))
        return self if len(kept) == len(self.facts) else Place(self.number, self.nest, kept)


class Use(NamedTuple):
    """An element, or a vector of them, that is read, written or asked for."""

    buffer: Expr
    indices: Sequence[Expr]
    place: Place


class Store(NamedTuple):
    """A value that is written to an element."""

    field: Field
    value: Expr
    place: Place


class Said(NamedTuple):
    """An expression that something in a kernel follows from, where it stands."""

    value: Expr
    place: Place


class Threads(NamedTuple):
    """How many threads, or workgroups, there are of a tag."""

    tag: str
    extent: int


Bound: TypeAlias = Said | Around | Threads
"""What a variable is: a value, of a loop, a thread's number."""


@dataclass(eq=False)
class Places:
    """All of a kernel that indices follow from.

    Attributes:
        uses: of buffers, but for constant indices.
        stores: by the buffer.
        bound: what each variable is.
        loops: what says how often loops run.
    """

    uses: list[Use] = field(default_factory=list)
    stores: dict[Id, list[Store]] = field(default_factory=dict)
    bound: dict[Id, Bound] = field(default_factory=dict)
    loops: list[Said] = field(default_factory=list)
    _number: int = 0
    _floats: set[Id] = field(default_factory=set)

    def visit(self, statement: Any, place: Place) -> frozenset[Element]:
        """Note all of a statement, at a place; returns what it writes."""
        visitor = _VISITORS.get(type(statement))
        if visitor is None:
            kind = type(statement).__name__
            raise CompileError(
                f"What a kernel's {kind} does to its indices is not known.", code="compile.kernel"
            )
        self._number += 1
        return visitor(self, statement, Place(self._number, place.nest, place.facts))

    def region(self, statement: Any, place: Place) -> frozenset[Element]:
        """Note a statement, and the elements that are read in it but not inside loops or branches
        of it; returns what it writes."""
        written = self.visit(statement, place)
        # With what holds from its beginning to its end.
        self._reads(statement, place.without(written))
        return written

    def _reads(self, root: Any, place: Place) -> None:
        if type(root) in (Var, e.IntImm):
            return
        loads: list[TensorLoad] = []
        tvm_ffi.structural_walk(
            root, [(TensorLoad, loads.append), (_REGIONS, lambda _: _SKIP)], order="pre"
        )
        for load in loads:
            self._use(load.source, items(load.indices), place)

    def _use(self, buffer: Expr, indices: Sequence[Expr], place: Place) -> Element:
        field = field_of(indices)
        if not all(map(_constant, indices)):
            self.uses.append(Use(buffer, indices, place))
        return hash(buffer), field

    def _sequence(self, statement: SeqStmt, place: Place) -> frozenset[Element]:
        written: frozenset[Element] = frozenset()
        for part in items(statement.seq):
            here = self.visit(part, place)
            if here:
                place = place.without(here)
                written |= here
        return written

    def _store(self, statement: BufferStore, place: Place) -> frozenset[Element]:
        buffer = statement.buffer
        written = self._use(buffer, items(statement.indices), place)
        stores = self.stores.get(written[0])
        if stores is None:
            stores = self.stores[written[0]] = []
            if str(buffer.dtype).startswith("float"):
                self._floats.add(written[0])
        if written[0] in self._floats:
            return _NOTHING  # that indices could follow from
        stores.append(Store(written[1], statement.value, place))
        return frozenset((written,))

    def _bind(self, statement: Bind, place: Place) -> frozenset[Element]:
        self.bound[hash(statement.var)] = Said(statement.value, place)
        return _NOTHING

    def _evaluate(self, statement: Evaluate, place: Place) -> frozenset[Element]:
        return _NOTHING

    def _for(self, statement: For, place: Place) -> frozenset[Element]:
        for part in (statement.min, statement.extent):
            if type(part) is not e.IntImm:
                self._reads(part, place)
                self.loops.append(Said(part, place))
        around = Around(place, statement.min, statement.extent)
        self.bound[hash(statement.loop_var)] = around
        return self.region(statement.body, self._round(statement, place).inside(around))

    def _while(self, statement: While, place: Place) -> frozenset[Element]:
        inner = self._round(statement, place).inside(Around(place))
        return self.region(statement.body, self._guarded(statement.condition, inner))

    def _round(self, loop: For | While, place: Place) -> Place:
        """The place where each round of a loop begins."""
        if not place.facts:
            return place
        stores: list[BufferStore] = []
        tvm_ffi.structural_walk(loop.body, (BufferStore, stores.append))
        return place.without(
            {(hash(store.buffer), field_of(items(store.indices))) for store in stores}
        )

    def _if(self, statement: IfThenElse, place: Place) -> frozenset[Element]:
        inner = place.inside(Around(place, rounds=1))
        written = self.region(statement.then_case, self._guarded(statement.condition, inner))
        if statement.else_case is not None:
            inner = place.inside(Around(place, rounds=1))
            otherwise = self._guarded(statement.condition, inner, holds=False)
            written |= self.region(statement.else_case, otherwise)
        return written

    def _guarded(self, condition: Expr, place: Place, *, holds: bool = True) -> Place:
        """A place that is only come to where a condition holds, or where it does not."""
        self._reads(condition, place)
        said = tuple(facts_of(condition, place, self.bound, holds=holds))
        return Place(place.number, place.nest, (*place.facts, *said))

    def _block(self, statement: SBlock, place: Place) -> frozenset[Element]:
        return self.region(statement.body, place)

    def _realize(self, statement: SBlockRealize, place: Place) -> frozenset[Element]:
        return self.visit(statement.block, place)

    def _attribute(self, statement: AttrStmt, place: Place) -> frozenset[Element]:
        if statement.attr_key == "thread_extent":
            axis = statement.node
            self.bound[hash(axis.var)] = Threads(str(axis.thread_tag), int(statement.value))
        return self.region(statement.body, place)


_VISITORS: Mapping[type, Callable[[Places, Any, Place], frozenset[Element]]] = {
    SeqStmt: Places._sequence,
    BufferStore: Places._store,
    Bind: Places._bind,
    Evaluate: Places._evaluate,
    For: Places._for,
    While: Places._while,
    IfThenElse: Places._if,
    SBlock: Places._block,
    SBlockRealize: Places._realize,
    AttrStmt: Places._attribute,
}


def places_of(function: PrimFunc) -> Places:
    """Go through a kernel before anything of it is lowered."""
    places = Places()
    places.region(function.body, Place())
    return places


_REGIONS = (For, While, IfThenElse, SBlockRealize, AttrStmt)
"""Statements that have regions of their own."""

_NOTHING: frozenset[Element] = frozenset()
_SKIP = tvm_ffi.WalkResult.SKIP


def loads_of(value: Expr) -> list[TensorLoad]:
    """The elements that an expression reads, those that their indices follow from too."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(value, (TensorLoad, found.append))
    return found


_SIZE, _ITEM = map(tvm_ffi.get_global_func, ("ffi.ArraySize", "ffi.ArrayGetItem"))


def items(array: Any) -> tuple[Any, ...]:
    """What is in one of TVM's arrays, in a third of the time that it takes to iterate over it."""
    return tuple([_ITEM(array, i) for i in range(_SIZE(array))])


def field_of(indices: Sequence[Expr]) -> Field:
    """Which elements indices name."""
    return tuple(index.value if type(index) is e.IntImm else None for index in indices)


def _constant(index: Expr) -> bool:
    """Whether an index is a number, or a run from one: most are, of registers."""
    kind = type(index)
    return kind is e.IntImm or (kind is e.Ramp and type(index.base) is e.IntImm)


def element_of(load: TensorLoad) -> Element:
    """What is read."""
    return hash(load.source), field_of(items(load.indices))


def key_of(value: Expr) -> Key | None:
    """The key of a variable, or of an element that only this thread writes; None of all else."""
    kind = type(value)
    if kind is e.IntImm:
        return ("number", int(value.value))
    if kind is Var:
        return ("variable", hash(value))
    if kind is not TensorLoad or str(value.source.scope()) == "shared":
        return None
    keys = tuple(map(key_of, items(value.indices)))
    return None if None in keys else ("element", hash(value.source), *keys)


def one_of(element: Element, elements: Iterable[Element]) -> bool:
    """Whether an element may be among others."""
    buffer, field = element
    return any(
        buffer == b and all(i is None or j is None or i == j for i, j in zip(field, f, strict=True))
        for b, f in elements
    )


def facts_of(
    condition: Expr, place: Place, bound: Mapping[Id, Bound], *, holds: bool
) -> Iterator[Fact]:
    """What a condition says of the integers in it where it holds, or where it does not."""
    kind = type(condition)
    if kind is e.Not:
        yield from facts_of(condition.a, place, bound, holds=not holds)
    elif kind is (e.And if holds else e.Or) or kind is (e.BitwiseAnd if holds else e.BitwiseOr):
        for part in (condition.a, condition.b):
            yield from facts_of(part, place, bound, holds=holds)
    elif kind is Var and isinstance(said := bound.get(hash(condition)), Said):
        # What memory held when it was bound may no longer be there.
        facts = facts_of(said.value, said.place, bound, holds=holds)
        yield from (fact for fact in facts if not fact.elements)
    elif kind in _ORDERS and "int" in str(condition.a.ty):
        elements = frozenset(map(element_of, loads_of(condition)))
        for turned, strict in _ORDERS[kind][not holds]:
            a, b = (condition.b, condition.a) if turned else (condition.a, condition.b)
            yield Fact(a, b, strict, place, elements, (key_of(a), key_of(b)))


# What a comparison says, and its opposite: whether the sides are turned round, and whether they
# differ.
_ORDERS: Mapping[type, tuple[tuple[tuple[bool, bool], ...], tuple[tuple[bool, bool], ...]]] = {
    e.LT: (((False, True),), ((True, False),)),
    e.LE: (((False, False),), ((True, True),)),
    e.GT: (((True, True),), ((False, False),)),
    e.GE: (((True, False),), ((False, True),)),
    e.EQ: (((False, False), (True, False)), ()),
    e.NE: ((), ((False, False), (True, False))),
}
