"""A padded tensor has every head's halves at their places and zeros elsewhere, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.models.base import LinearSpec, ParamSpec, VectorSpec
from edgewise_compiler.weights.padded import PaddedReader, find_paddings
from edgewise_runtime.errors import CheckpointError
from tests.compiler.layouts.linears import write_tensors

HEADS, STORED, WIDTH = 3, 6, 32
RNG = np.random.default_rng(0)
Q = RNG.standard_normal((HEADS * STORED, 4), dtype=np.float32)
BIAS = RNG.standard_normal(HEADS * STORED, dtype=np.float32)
O = RNG.standard_normal((5, HEADS * STORED), dtype=np.float32)
NORM = RNG.standard_normal(STORED, dtype=np.float32)


def specs(width: int) -> tuple[ParamSpec, ...]:
    """Heads of this width."""
    return (
        LinearSpec("q", ("q",), (HEADS * width,), 4, ("bias",)),
        VectorSpec("norm", "norm", width),
        LinearSpec("o", ("o",), (5,), HEADS * width),
        LinearSpec("other", ("other",), (HEADS * STORED,), 4),
    )


def spread(rows: np.ndarray) -> np.ndarray:
    """Rows of heads one by one."""
    heads = len(rows) // STORED
    out = np.zeros((heads * WIDTH, *rows.shape[1:]), np.float32)
    for head in range(heads):
        for i in range(STORED):
            half, place = divmod(i, STORED // 2)
            out[head * WIDTH + half * WIDTH // 2 + place] = rows[head * STORED + i]
    return out


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[PaddedReader]:
    tensors = {"q": Q, "bias": BIAS, "o": O, "norm": NORM, "other": Q}
    paddings = find_paddings(specs(STORED), specs(WIDTH))
    with PaddedReader(write_tensors(tmp_path, tensors), paddings, STORED, WIDTH) as opened:
        yield opened


def test_what_has_heads_is_found_by_its_shapes() -> None:
    found = find_paddings(specs(STORED), specs(WIDTH))
    assert {name: (p.shape, p.axis, p.scale**2) for name, p in found.items()} == {
        "q": ((96, 4), 0, 1),
        "bias": ((96,), 0, 1),
        "norm": ((32,), 0, pytest.approx(6 / 32)),
        "o": ((5, 96), 1, 1),
    }
    assert find_paddings(specs(WIDTH), specs(WIDTH)) == {}


@pytest.mark.parametrize("start", [0, 1, 3, 16, 19, 31, 32, 40, 96])
@pytest.mark.parametrize("stop", [0, 2, 3, 18, 19, 32, 49, 95, 96, None])
def test_any_rows_of_heads_are_those_of_the_whole(
    reader: PaddedReader, start: int, stop: int | None
) -> None:
    if stop is not None and stop < start:
        with pytest.raises(CheckpointError, match=f"rows {start}..{stop} of 'q'"):
            reader.read("q", start, stop)
        return
    np.testing.assert_array_equal(reader.read("q", start, stop), spread(Q)[start:stop], strict=True)
    np.testing.assert_array_equal(reader.read("bias", start, stop), spread(BIAS)[start:stop])


def test_columns_of_heads_are_spread_alike(reader: PaddedReader) -> None:
    np.testing.assert_array_equal(reader.read("o"), spread(O.T).T, strict=True)
    np.testing.assert_array_equal(reader.read("o", 1, 3), spread(O.T).T[1:3])
    np.testing.assert_array_equal(reader.read("other", 1, 3), Q[1:3])


def test_a_norm_of_padded_heads_computes_what_it_did(reader: PaddedReader) -> None:
    head, eps = RNG.standard_normal(STORED, dtype=np.float32), 0.1
    plain = head / np.sqrt(np.square(head).mean() + eps) * NORM
    wide = spread(head)
    padded = wide / np.sqrt(np.square(wide).mean() + eps * STORED / WIDTH) * reader.read("norm")
    np.testing.assert_allclose(padded, spread(plain), rtol=1e-6, atol=0)


def test_names_shapes_and_bytes_say_that_they_are_padded(reader: PaddedReader) -> None:
    assert set(reader.names()) == {"q", "bias", "o", "norm", "other"}
    assert [reader.shape(name) for name in ("q", "o", "other")] == [(96, 4), (5, 96), (18, 4)]
    assert reader.dtype("q") == "F32"
    plain, padded = (b"".join(p.tobytes() for p in reader.stored(n)) for n in ("other", "q"))
    assert padded == plain + b"heads of 6 in 32"


def test_rows_beyond_the_padded_tensor_are_refused(reader: PaddedReader) -> None:
    with pytest.raises(CheckpointError, match="it has 96"):
        reader.read("q", 0, 97)
