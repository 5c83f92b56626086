"""How decode's linears are divided among the threads of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgewise_compiler.kernels.gpu.matmul.weights import GpuWeights

THREADS = 64
LANES = (8, 16, 32, 64)
# Workgroups that keep processors busy. A matrix that has so many with four output rows a thread is
# divided for the least work; one that has fewer for the most threads.
MANY_WORKGROUPS = 256
# Rows of activations from which a thread has two output rows: sums of more would not fit registers.
MANY_ROWS = 4


@dataclass(frozen=True)
class Shape:
    """How the work of one matrix is divided.

    Attributes:
        lanes: threads that share an output row, a power of two.
        columns: output rows of the matrix a thread computes.
        batch: rows of activations a workgroup handles.
    """

    lanes: int
    columns: int
    batch: int

    @property
    def sets(self) -> int:
        """Lane groups of a workgroup, each with output rows of its own."""
        return THREADS // self.lanes

    @property
    def outputs(self) -> int:
        """Sums of a thread."""
        return self.columns * self.batch

    def workgroups(self, rows: int) -> int:
        """How many a matrix of so many rows takes, for as many rows of activations as one has."""
        return rows // (self.sets * self.columns)


def shape_for(rows: int, runs: int, batch: int) -> Shape:
    """How a matrix of ``rows`` times ``runs`` of columns is divided.

    The lanes, which decide how a row is summed, follow from the matrix alone. A high one has a few,
    whose row of activations many output rows share. A narrow one has its columns split among as
    many as it takes to fill processors: partial sums of one workgroup, since a launch that adds up
    those of several would cost more than such a matrix.
    """

    def turns(lanes: int) -> int:
        return -(-runs // lanes)

    lanes = min(16, 8, key=lambda n: turns(n) * n)
    columns = 4
    if rows // (THREADS // lanes * columns) < MANY_WORKGROUPS:
        columns = 2
        useful = [n for n in LANES if n == LANES[0] or turns(n) < turns(n // 2)]
        lanes = next((n for n in useful if rows * n >= MANY_WORKGROUPS * THREADS * 2), useful[-1])
    return Shape(lanes, 2 if batch > MANY_ROWS else columns, batch)


def joining_shape(rows: int, runs: int) -> Shape:
    """The same sums of one row of activations, with as many output rows a thread as divide the
    matrix evenly, 8 at most: fewer workgroups do what every one does before it begins."""
    shape = shape_for(rows, runs, 1)
    fitting = (n for n in (8, 4) if n > shape.columns and rows % (shape.sets * n) == 0)
    return replace(shape, columns=next(fitting, shape.columns))


def joining_workgroups(outputs: int, inputs: int, scheme: str) -> int:
    """How many workgroups a matrix has where a source makes its row of activations."""
    runs = inputs // GpuWeights(scheme, outputs, inputs).run
    return joining_shape(outputs, runs).workgroups(outputs)
