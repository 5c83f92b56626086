"""Tensors that a checkpoint stores in another way than parameters name them.

Several in one, one below the other, or with the elements of heads in another order: rows are looked
up, so that codes stay codes. Experts may be stacked, with rows as columns (`weights.stacked`).
Vectors may also be stored less one, or want a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.codes import CodedRows, Holders
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.files import Bytes, Floats, check_rows
from edgewise_compiler.weights.stacked import Kept, Share

PIECE = 4 << 20
"""Bytes of a share that are hashed at a time."""


@dataclass(frozen=True)
class Turning:
    """Heads of ``width`` elements of which the first ``rotated`` turn, the first of their halves
    with the second.

    Kernels turn the halves of whole heads. So what turns goes to the beginnings of these, and the
    rest, which turns by no angle there, behind it: ``a b r s`` becomes ``a r b s``.
    """

    width: int
    rotated: int

    def places(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where the checkpoint has the elements that come to ``rows``."""
        head, element = np.divmod(rows, self.width)
        half, i = np.divmod(element, self.width // 2)
        turns = self.rotated // 2
        rest = self.rotated + half * (self.width // 2 - turns) + i - turns
        found: NDArray[np.intp] = head * self.width + np.where(i < turns, half * turns + i, rest)
        return found


@dataclass(frozen=True)
class View:
    """A tensor made of another one's rows.

    Attributes:
        source: the tensor that is stored.
        first, rows: of its rows, from which on and how many; None for all that follow.
        turning: the order of the rows of each head, where it is another one.
        plus, times: added to every element, which is then multiplied.
        share: of a tensor of all experts what one of them has, with rows as columns there; nothing
            else is said then. Its bytes are its own, so that the mark beside them need not name it.
    """

    source: str
    first: int = 0
    rows: int | None = None
    turning: Turning | None = None
    plus: float = 0.0
    times: float = 1.0
    share: Share | None = field(default=None, repr=False)


Rows = TypeVar("Rows", Floats, CodedRows)


class ViewReader:
    """A checkpoint's tensors under the names of ``views``, others as they are.

    Implements :class:`~.base.WeightReader`.
    """

    def __init__(self, reader: WeightReader, views: Mapping[str, View]) -> None:
        self._reader = reader
        self._views = views
        self._kept = Kept()
        sources, there = {view.source for view in views.values()}, set(reader.names())
        others = tuple(name for name in reader.names() if name not in sources)
        self._names = (*others, *(name for name, view in views.items() if view.source in there))

    def names(self) -> tuple[str, ...]:
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        view = self._views.get(name)
        if view is None:
            return self._reader.shape(name)
        if view.share is not None:
            return view.share.shape(self._reader.shape(view.source))
        whole = self._reader.shape(view.source)
        if not whole:
            return whole
        rows, *others = whole
        # Fewer than there should be, or more of what follows, are refused with the shape.
        left = max(0, rows - view.first)
        return (left if view.rows is None else min(left, view.rows), *others)

    def dtype(self, name: str) -> str:
        view = self._views.get(name)
        return self._reader.dtype(name if view is None else view.source)

    def size(self, name: str) -> int:
        view = self._views.get(name)
        size = self._reader.size(name if view is None else view.source)
        share = None if view is None else view.share
        return size if share is None else size // (share.experts * share.step)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        view = self._views.get(name)
        if view is None:
            return self._reader.read(name, start, stop)
        stop = check_rows(name, start, stop, self.shape(name)[0])
        if view.share is not None:
            return self._kept.rows(self._reader.read, view.source, view.share, start, stop)
        values = _taken(partial(self._reader.read, view.source), view, start, stop)
        if (view.plus, view.times) != (0.0, 1.0):
            values = (values + np.float32(view.plus)) * np.float32(view.times)
        return values

    def stored(self, name: str) -> Iterator[Bytes]:
        view = self._views.get(name)
        if view is not None and view.share is not None:
            yield from self._values(name)
        else:
            yield from self._reader.stored(name if view is None else view.source)
        if view is not None:
            yield np.frombuffer(repr(view).encode(), np.uint8)

    def _values(self, name: str) -> Iterator[Bytes]:
        """A share as it is read: all bytes of its source would be those of every expert."""
        rows, *others = self.shape(name)
        step = max(1, PIECE // (4 * max(1, *others, 1)))
        for start in range(0, rows, step):
            yield self.read(name, start, min(start + step, rows)).reshape(-1).view(np.uint8)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def viewed(held: Mapping[str, Holders], views: Mapping[str, View]) -> dict[str, Holders]:
    """The schemes that hold each matrix, by the names of ``views`` where these have one."""
    sources = {view.source for view in views.values()}
    found = {name: holders for name, holders in held.items() if name not in sources}
    for name, view in views.items():
        if view.source in held:
            found[name] = {
                scheme: None if read is None else partial(_taken, read, view)
                for scheme, read in held[view.source].items()
            }
    return found


def _taken(read: Callable[[int, int], Rows], view: View, start: int, stop: int) -> Rows:
    """Rows of a view, of what reads those of its source."""
    if view.turning is None or start == stop:
        return read(view.first + start, view.first + stop)
    width = view.turning.width
    first, last = start // width * width, -(-stop // width) * width
    rows = read(view.first + first, view.first + last)
    return rows[view.turning.places(np.arange(start, stop)) - first]


def split(source: str, parts: Mapping[str, int]) -> dict[str, View]:
    """Tensors of so many rows each that follow each other in ``source`` and are all of it."""
    views, first = {}, 0
    for name, rows in parts.items():
        views[name] = View(source, first, rows)
        first += rows
    last = list(parts)[-1]
    views[last] = replace(views[last], rows=None)
    return views
