"""Packed linears hold the documented bits in the documented order, whatever their sources."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edgewise_compiler.quantize.linear import (
    linear_arrays,
    linear_blocks,
    pack_linear,
    read_vector,
)
from edgewise_compiler.quantize.panels import padded_k, padded_rows
from numpy.typing import NDArray

from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize import SCHEMES, find_scheme, linear
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from tests.parity.make_checkpoints import write_safetensors

Floats = NDArray[np.float32]

PLAIN = LinearSpec("l", ("a",), (37,), 64)
STACKED = LinearSpec("l", ("a", "b", "c"), (48, 16, 17), 96, ("a.b", "b.b", "c.b"))
INTERLEAVED = LinearSpec("l", ("a", "b"), (40, 40), 48, ("a.b", "b.b"), interleave=True)
EXACT = LinearSpec("l", ("a", "b"), (64, 64), 32, interleave=True)
SPECS = [PLAIN, STACKED, INTERLEAVED, EXACT]


def write_tensors(folder: Path, tensors: Mapping[str, Floats]) -> SafetensorsReader:
    stored = {name: ("F32", values.shape, values.tobytes()) for name, values in tensors.items()}
    write_safetensors(folder / "model.safetensors", stored)
    return SafetensorsReader(folder)


def make_sources(spec: LinearSpec, seed: int = 0) -> dict[str, Floats]:
    """Weights whose groups differ in scale, and biases."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, rows in zip(spec.sources, spec.rows, strict=True):
        spread = np.exp2(rng.integers(-8, 4, (rows, 1))).astype(np.float32)
        tensors[name] = rng.standard_normal((rows, spec.k), dtype=np.float32) * spread
    for name, rows in zip(spec.biases or (), spec.rows, strict=spec.biases is not None):
        tensors[name] = rng.standard_normal(rows, dtype=np.float32)
    return tensors


def ordered_rows(spec: LinearSpec, tensors: Mapping[str, Floats], names: tuple[str, ...]) -> Floats:
    """The packed order of rows, one row at a time; K padded."""
    rows = np.zeros((padded_rows(spec), *tensors[names[0]].shape[1:]), np.float32)
    position = 0
    for index, name in enumerate(names):
        for r, row in enumerate(tensors[name]):
            if spec.interleave:
                rows[(r // 16 * 2 + index) * 16 + r % 16] = row
            else:
                rows[position] = row
                position += 1
    if rows.ndim == 2:
        rows = np.pad(rows, ((0, 0), (0, padded_k(spec) - spec.k)))
    return rows


def plain_pack(scheme: str, rows: Floats) -> dict[str, NDArray[Any]]:
    """The layouts spelled out one weight at a time."""
    n, k = rows.shape
    if scheme in ("f32", "f16"):
        weight = np.zeros((n // 16, k, 16), "float32" if scheme == "f32" else "float16")
        for row in range(n):
            for column in range(k):
                weight[row // 16, column, row % 16] = rows[row, column]
        return {"weight": weight}
    limit, offset, per_word = {"q8": (127, 128, 4), "q4": (7, 7, 8)}[scheme]
    words = np.zeros((n // 16, k // per_word, 16), np.uint32)
    scales = np.zeros((n // 16, k // 32, 16), np.float16)
    for row in range(n):
        for group in range(k // 32):
            values = rows[row, group * 32 : group * 32 + 32]
            scale = np.float16(np.abs(values).max() / np.float32(limit))
            scales[row // 16, group, row % 16] = scale
            for i, value in enumerate(values):
                q = int(np.rint(value / np.float32(scale))) if scale > 0 else 0
                u = max(-limit, min(limit, q)) + offset
                column = group * 32 + i
                j = column % per_word
                shift = 8 * j if per_word == 4 else 8 * (j % 4) + 4 * (j // 4)
                words[row // 16, column // per_word, row % 16] |= np.uint32(u << shift)
    return {"weight": words, "scale": scales}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("spec", SPECS, ids=["plain", "stacked", "interleaved", "exact"])
@pytest.mark.parametrize("block", [1, 40 * 96, 1 << 18], ids=["smallest", "some", "whole"])
def test_packing_agrees_with_one_weight_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, spec: LinearSpec, block: int
) -> None:
    monkeypatch.setattr(linear, "BLOCK_ELEMENTS", block)
    tensors = make_sources(spec)
    with write_tensors(tmp_path, tensors) as reader:
        packed = pack_linear(SCHEMES[scheme], spec, reader)
    expected = plain_pack(scheme, ordered_rows(spec, tensors, spec.sources))
    for suffix, array in expected.items():
        np.testing.assert_array_equal(packed[f"l.{suffix}"], array, strict=True)
    if spec.biases is not None:
        bias = ordered_rows(spec, tensors, spec.biases)
        np.testing.assert_array_equal(packed["l.bias"], bias, strict=True)
    declared = linear_arrays(SCHEMES[scheme], spec)
    assert {name: (a.dtype.name, a.shape) for name, a in packed.items()} == {
        name: (array.dtype, array.shape) for name, array in declared.items()
    }


@pytest.mark.parametrize("scheme", SCHEMES)
def test_unpacking_gives_what_was_packed_within_the_scheme(scheme: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((6, 16, 128), dtype=np.float32)
    rows *= np.exp2(rng.integers(-6, 6, (6, 16, 1))).astype(np.float32)
    packed = SCHEMES[scheme].pack(rows.copy())
    values = SCHEMES[scheme].unpack(packed)
    assert (values.shape, values.dtype) == (rows.shape, np.float32)
    error = np.abs(values - rows)
    if scheme == "f32":
        assert not error.any()
    elif scheme == "f16":
        assert (error <= np.abs(rows) * 2.0**-11 + 2.0**-25).all()
    else:
        limit = {"q8": 127, "q4": 7}[scheme]
        scale = packed["scale"].astype(np.float32).transpose(0, 2, 1).repeat(32, axis=2)
        # Half a step, and at the largest value what rounding the scale to float16 took away.
        assert (error <= scale * (0.5 + limit * 2.0**-11) * 1.0001).all()
        assert (error <= scale * 0.5 * 1.0001).mean() > 0.95
        again = SCHEMES[scheme].pack(values.copy())
        np.testing.assert_array_equal(SCHEMES[scheme].unpack(again), values)


@pytest.mark.parametrize(("scheme", "zero"), [("q8", 0x80808080), ("q4", 0x77777777)])
def test_a_group_of_zeros_is_zero(scheme: str, zero: int) -> None:
    packed = SCHEMES[scheme].pack(np.zeros((2, 16, 64), np.float32))
    assert (packed["weight"] == zero).all()
    assert not packed["scale"].any()
    assert not SCHEMES[scheme].unpack(packed).any()


@pytest.mark.parametrize(("scheme", "limit"), [("q8", 127), ("q4", 7)])
@pytest.mark.parametrize("tiny", [1e-45, 1e-12, 2.0**-26])
def test_a_group_too_small_for_its_scale_is_zero(scheme: str, limit: int, tiny: float) -> None:
    rows = np.full((1, 16, 32), tiny * limit, np.float32)
    rows[:, ::2] *= -1
    packed = SCHEMES[scheme].pack(rows)
    assert not packed["scale"].any()
    assert not SCHEMES[scheme].unpack(packed).any()


@pytest.mark.parametrize(("scheme", "limit"), [("q8", 127), ("q4", 7)])
@pytest.mark.parametrize("value", [1.0, -3.0, 2.0**-14, 1000.0])
def test_a_constant_group_is_exact_to_its_scale(scheme: str, limit: int, value: float) -> None:
    values = SCHEMES[scheme].unpack(SCHEMES[scheme].pack(np.full((1, 16, 32), value, np.float32)))
    scale = np.float32(np.float16(np.float32(abs(value)) / np.float32(limit)))
    assert (values == np.float32(np.sign(value)) * scale * np.float32(limit)).all()
    assert values[0, 0, 0] == pytest.approx(value, rel=1e-3 if abs(value) > 0.01 else 0.02)


@pytest.mark.parametrize(("scheme", "limit"), [("q8", 127), ("q4", 7)])
def test_a_scale_rounded_down_clips_instead_of_wrapping(scheme: str, limit: int) -> None:
    # 1.4 steps of float16's smallest number round to one, so max|w| / scale is beyond the limit.
    rows = np.full((1, 16, 32), 1.4 * 2.0**-24 * limit, np.float32)
    values = SCHEMES[scheme].unpack(SCHEMES[scheme].pack(rows))
    assert (values == np.float32(limit * 2.0**-24)).all()


@pytest.mark.parametrize(
    ("scheme", "largest", "beyond"),
    [("f16", 65504.0, 65536.0), ("q8", 8.3e6, 8.4e6), ("q4", 4.58e5, 4.7e5)],
)
def test_weights_beyond_a_scheme_are_refused_by_name(
    tmp_path: Path, scheme: str, largest: float, beyond: float
) -> None:
    tensors = make_sources(PLAIN)
    for value in (largest, beyond):
        tensors["a"][11, 5] = value
        (tmp_path / str(value)).mkdir()
        with write_tensors(tmp_path / str(value), tensors) as reader:
            if value == largest:
                pack_linear(SCHEMES[scheme], PLAIN, reader)
                continue
            with pytest.raises(CheckpointError, match=r"^l \(a\): .*65504") as caught:
                pack_linear(SCHEMES[scheme], PLAIN, reader)
            assert "f32" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "shape"),
    [("a", (47, 96)), ("a", (96, 48)), ("b", (16,)), ("c", (17, 96, 1)), ("c.b", (16,))],
)
def test_a_source_of_another_shape_is_refused(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    tensors = make_sources(STACKED) | {name: np.ones(shape, np.float32)}
    with (
        write_tensors(tmp_path, tensors) as reader,
        pytest.raises(CheckpointError) as caught,
    ):
        pack_linear(SCHEMES["q4"], STACKED, reader)
    assert f"{name} has shape {list(shape)}" in caught.value.message


def test_a_missing_bias_is_refused_before_anything_is_packed(tmp_path: Path) -> None:
    tensors = make_sources(STACKED)
    del tensors["b.b"]
    with (
        write_tensors(tmp_path, tensors) as reader,
        pytest.raises(CheckpointError, match=r"'b\.b'"),
    ):
        next(linear_blocks(SCHEMES["f32"], STACKED, reader))


def test_a_vector_stays_float32_and_is_checked(tmp_path: Path) -> None:
    values = np.linspace(-1, 1, 40, dtype=np.float32)
    with write_tensors(tmp_path, {"norm": values}) as reader:
        np.testing.assert_array_equal(read_vector(VectorSpec("n", "norm", 40), reader), values)
        with pytest.raises(CheckpointError, match=r"norm has shape \[40\]"):
            read_vector(VectorSpec("n", "norm", 32), reader)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_large_linear_is_packed_in_little_memory(tmp_path: Path, scheme: str) -> None:
    spec = LinearSpec("embed", ("w",), (30_000,), 256)
    rng = np.random.default_rng(0)
    with write_tensors(tmp_path, {"w": rng.random((30_000, 256), dtype=np.float32)}) as reader:
        tracemalloc.start()
        try:
            panels = [first for first, _ in linear_blocks(SCHEMES[scheme], spec, reader)]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert panels == list(range(0, padded_rows(spec) // 16, panels[1]))
    assert peak < 10 << 20


def test_packing_fills_arrays_it_is_given(tmp_path: Path) -> None:
    specs = linear_arrays(SCHEMES["q4"], INTERLEAVED)
    out = {name: np.full(array.shape, 9, array.dtype) for name, array in specs.items()}
    with write_tensors(tmp_path, make_sources(INTERLEAVED)) as reader:
        assert pack_linear(SCHEMES["q4"], INTERLEAVED, reader, out) is out
        for name, array in pack_linear(SCHEMES["q4"], INTERLEAVED, reader).items():
            np.testing.assert_array_equal(out[name], array)


def test_an_unknown_scheme_lists_those_there_are() -> None:
    with pytest.raises(UnsupportedError, match="f32, f16, q8, q4"):
        find_scheme("q5")
    assert find_scheme("q4").arithmetic == "w4a8"
