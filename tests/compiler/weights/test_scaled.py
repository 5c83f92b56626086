"""A scaled tensor is the other one times powers of two, whichever rows are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.weights.scaled import ScaledReader, Scaling
from edgewise_runtime.errors import CheckpointError
from tests.compiler.layouts.linears import write_tensors

ROWS = np.array([0, 3, -2, 0, 60], np.int32)
COLUMNS = np.array([1, 0, -5], np.int32)


MATRIX = np.random.default_rng(0).standard_normal((5, 3), dtype=np.float32)
VECTOR = np.random.default_rng(1).standard_normal(5, dtype=np.float32)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[ScaledReader]:
    tensors = {"m": MATRIX, "v": VECTOR, "other": MATRIX, "large": MATRIX * np.float32(1e30)}
    scalings = {"m": Scaling(ROWS, COLUMNS), "v": Scaling(ROWS), "large": Scaling(ROWS * 4)}
    with ScaledReader(write_tensors(tmp_path, tensors), scalings) as opened:
        yield opened


@pytest.mark.parametrize(("start", "stop"), [(0, None), (0, 5), (1, 3), (4, 5), (2, 2)])
def test_rows_and_columns_are_multiplied_exactly(
    reader: ScaledReader, start: int, stop: int | None
) -> None:
    rows = np.exp2(ROWS.astype(np.float32))
    both = MATRIX * rows[:, None] * np.exp2(COLUMNS.astype(np.float32))
    found = reader.read("m", start, stop)
    np.testing.assert_array_equal(found, both[start:stop], strict=True)
    np.testing.assert_array_equal(reader.read("v", start, stop), (VECTOR * rows)[start:stop])
    np.testing.assert_array_equal(reader.read("other", start, stop), MATRIX[start:stop])


def test_names_and_shapes_are_those_of_the_file(reader: ScaledReader) -> None:
    assert set(reader.names()) == {"m", "v", "other", "large"}
    assert (reader.shape("m"), reader.dtype("m")) == ((5, 3), "F32")


def test_what_grows_beyond_float32_is_refused(reader: ScaledReader) -> None:
    with pytest.raises(CheckpointError, match=r"'large' holds -?inf at index \[4, 0\]"):
        reader.read("large")
