"""Matrices whose first rows are in another scheme than the others.

Tokenizers number tokens in the order in which they were merged, so the first rows of a table of
tokens and of a head are what most texts are made of: they are worth more bits than the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from edgewise_compiler.quantize.codes import Scheme
from edgewise_runtime.errors import CompileError, UnsupportedError

ROW_STEP = 64
"""The rows of a part are a multiple: whole pairs of interleaved panels, whole tiles of a kernel."""


@dataclass(frozen=True)
class Split:
    """The first ``rows`` of a matrix are in ``first``, those behind them in ``rest``.

    Raises:
        UnsupportedError: integers beside floats, or rows that are no multiple of 64.
    """

    first: Scheme
    rows: int
    rest: Scheme

    def __post_init__(self) -> None:
        if self.first.integer != self.rest.integer:
            raise _refused(f"{self.first.name} beside {self.rest.name}: integers and floats")
        if self.rows < ROW_STEP or self.rows % ROW_STEP:
            raise _refused(f"{self.rows} first rows, which are no multiple of {ROW_STEP}")

    @property
    def name(self) -> str:
        """Different from that of every other way to store a matrix."""
        return f"{self.first.name}[:{self.rows}]+{self.rest.name}"

    @property
    def integer(self) -> bool:
        """Whether codes are integers (`Scheme.integer`)."""
        return self.first.integer


AnyScheme = Scheme | Split
"""How a matrix is stored."""


class Band(NamedTuple):
    """Rows ``start`` to ``stop`` of a matrix, which are in one scheme."""

    scheme: Scheme
    start: int
    stop: int


def bands(scheme: AnyScheme, rows: int) -> tuple[Band, ...]:
    """The rows of a matrix of so many by their schemes, in order and without gaps."""
    if isinstance(scheme, Scheme):
        return (Band(scheme, 0, rows),)
    if rows <= scheme.rows:
        return (Band(scheme.first, 0, rows),)
    return Band(scheme.first, 0, scheme.rows), Band(scheme.rest, scheme.rows, rows)


def schemes_of(scheme: AnyScheme) -> tuple[Scheme, ...]:
    """All that rows of a matrix may be in."""
    return (scheme,) if isinstance(scheme, Scheme) else (scheme.first, scheme.rest)


def chooses(scheme: AnyScheme) -> bool:
    """Whether some of its rows have codes to choose among (`Scheme.levels`)."""
    return any(one.levels is not None for one in schemes_of(scheme))


def scheme_of_rows(scheme: AnyScheme, start: int, stop: int) -> Scheme:
    """What rows ``start`` to ``stop`` are in; CompileError for rows of two schemes."""
    if isinstance(scheme, Scheme):
        return scheme
    if start < scheme.rows < stop:
        raise CompileError(f"Rows {start} to {stop} of {scheme.name} are in two schemes.")
    return scheme.first if start < scheme.rows else scheme.rest


def _refused(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"A matrix of {what}.",
        remedy=f"Rows of one matrix are all integers or all floats, the first {ROW_STEP}, "
        f"{2 * ROW_STEP}, {3 * ROW_STEP}, ... of them in another scheme.",
        code="unsupported.recipe",
    )
