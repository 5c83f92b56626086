"""The rows of ``table`` on the device, of which only what is new is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format import abi
from edgewise_runtime.format.state import paged_state

Integers = npt.NDArray[np.int32]

AT_ONCE = 1 << 14
"""int32 of rows that are written in one piece, whatever in them is new."""


_STATE = slice(abi.STOP, abi.COUNT + 1)
"""Columns that tell how a burst went, from the first that is of interest to the last."""


class Line(NamedTuple):
    """A sequence's part of a step: its row of ``table``.

    Attributes:
        start: its tokens in KV before the step: the position of the first of its token rows.
        rows: how many of the step's token rows are its own; they follow those of the line before.
        pages: its pages in order. As long as this is the same object, pages that are full stay, and
            others follow or are replaced.
        limit: the most tokens it may come to have in KV.
        slot: its row of ``counts``.
        beside: its pages of the other state groups, a list for each, as long as `pages`. Where it
            has none any more, because they lie behind a window, they are negative.
    """

    start: int
    rows: int
    pages: Sequence[int]
    limit: int
    slot: int = 0
    beside: Sequence[Sequence[int]] = ()

    def pages_of(self, group: int) -> Sequence[int]:
        """Its pages of a state group."""
        return self.beside[group - 1] if group else self.pages


def header_array(lines: Sequence[Line]) -> Integers:
    """What rows of ``table`` say before their pages."""
    headers = np.zeros((len(lines), abi.TABLE_HEADER), np.int32)
    first = 0
    for row, line in zip(headers, lines, strict=True):
        row[[abi.KV_LEN, abi.Q_START, abi.Q_LEN]] = line.start, first, line.rows
        row[[abi.LIMIT, abi.SLOT]] = line.limit, line.slot
        first += line.rows
    return headers


def table_array(lines: Sequence[Line], columns: int) -> Integers:
    """The first rows of ``table``, which has so many columns."""
    table = np.zeros((len(lines), columns), np.int32)
    table[:, : abi.TABLE_HEADER] = header_array(lines)
    for row, line in zip(table, lines, strict=True):
        row[abi.TABLE_HEADER : abi.TABLE_HEADER + len(line.pages)] = line.pages
    return table


class TableRows:
    """Writes rows of a program's ``table``, or of that of another state group.

    A page is written to a row once: a context of 128k tokens has 8,192 of them.

    Attributes:
        sequences: rows.
        pages: the most pages of a row.
    """

    def __init__(self, program: LoadedProgram, group: int = 0) -> None:
        """Raises BundleError ``bundle.buffer``."""
        self.sequences = program.bundle.model.max_batch
        self._group, self._buffer = group, abi.TABLES[group]
        self.pages = _columns(program, self._buffer) - abi.TABLE_HEADER
        self._program = program
        self._page_tokens = paged_state(program.bundle.manifest).page_tokens
        # As the device has them, but for the headers, which it goes on with.
        self._rows: Integers = np.zeros((self.sequences, self.pages + abi.TABLE_HEADER), np.int32)
        self._whose: list[Sequence[int]] = [()] * self.sequences
        self._written = [0] * self.sequences
        self._settled = [0] * self.sequences

    def begin(self, lines: Sequence[Line], *, pages: bool = True) -> None:
        """Write a row for each line, or only what it says besides its pages."""
        count, columns = len(lines), self._rows.shape[1]
        self._rows[:count, : abi.TABLE_HEADER] = header_array(lines)
        news = [self._take(row, line) if pages else None for row, line in enumerate(lines)]
        if count * columns <= AT_ONCE:
            self._program.write(self._buffer, self._rows[:count])
            return
        for row, new in enumerate(news):
            self._write(row, slice(0, abi.TABLE_HEADER))
            if new is not None:
                self._write(row, new)

    def go_on(self, lines: Sequence[Line]) -> None:
        """Write the pages that lines have been given since."""
        for row, line in enumerate(lines):
            if (new := self._take(row, line)) is not None:
                self._write(row, new)

    def drawn(self, count: int) -> tuple[list[int], bool]:
        """How many tokens each of the first rows has drawn since it began, and whether all go on
        where they may."""
        state = self._program.read(self._buffer, slice(0, count), _STATE).tolist()
        return [row[-1] for row in state], not any(row[0] for row in state)

    def _take(self, row: int, line: Line) -> slice | None:
        """Note a line's pages; the columns of those that are new, None where none is."""
        pages = line.pages_of(self._group)
        count, full = len(pages), line.start // self._page_tokens
        first = self._settled[row] if self._whose[row] is pages else 0
        if first == full and self._written[row] == count and self._whose[row] is pages:
            return None
        # One that has become full since may be another's now, with the same tokens.
        new = slice(abi.TABLE_HEADER + first, abi.TABLE_HEADER + count)
        # Kernels look up what a window hides, and leave out what they find.
        self._rows[row, new] = np.maximum(pages[first:], 0)
        self._whose[row], self._written[row], self._settled[row] = pages, count, full
        return new

    def _write(self, row: int, columns: slice) -> None:
        at = row * self._rows.shape[1] + int(columns.start)
        self._program.write(self._buffer, self._rows[row, columns], at)


def _columns(program: LoadedProgram, buffer: str) -> int:
    for plan in program.plans.values():
        found = plan.buffer_table.get(buffer)
        if found is not None and isinstance(found.shape[-1], int):
            return found.shape[-1]
    raise BundleError(
        f"No plan of program {program.program.id!r} has a buffer {buffer!r}.",
        remedy="Compile the model again with this version of edgewise.",
        code="bundle.buffer",
    )
