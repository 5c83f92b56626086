"""The gpu layout holds the cpu layout's numbers, row by row, in pieces that fit a binding."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_compiler.layouts import rows as gpu_layout
from edgewise_compiler.layouts.order import coded_blocks, padded_k, padded_rows
from edgewise_compiler.layouts.packing import quantized
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.layouts.rows import GPU, MAX_BINDING, linear_parts, take_rows
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize import SCHEMES, find_scheme
from tests.compiler.layouts.linears import (
    STACKED,
    each,
    joined,
    make_sources,
    packed,
    rows_of,
    write_tensors,
)


@pytest.mark.parametrize("binding", [MAX_BINDING, 64 * 64], ids=["whole", "in parts"])
@each
def test_rows_hold_what_panels_hold(
    scheme: str, spec: LinearSpec, binding: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_layout, "MAX_BINDING", binding)
    with write_tensors(tmp_path, make_sources(spec)) as reader:
        ours = packed(GPU, SCHEMES[scheme], spec, reader)
        theirs = packed(CPU, SCHEMES[scheme], spec, reader)
    assert {array.dtype.itemsize for array in ours.values()} == {4}
    weight = rows_of(theirs["l.weight"])
    assert joined(ours, ".weight").tobytes() == np.ascontiguousarray(weight).tobytes()
    numbers = SCHEMES[scheme].numbers
    assert (f"l.{numbers}" in theirs) == SCHEMES[scheme].integer
    if SCHEMES[scheme].integer:
        expected = rows_of(theirs[f"l.{numbers}"]).ravel()
        found = joined(ours, f".{numbers}").ravel().view(expected.dtype)
        np.testing.assert_array_equal(found, expected)
    if spec.biases is not None:
        np.testing.assert_array_equal(joined(ours, ".bias"), theirs["l.bias"])


@pytest.mark.parametrize("binding", [MAX_BINDING, 64 * 64], ids=["whole", "in parts"])
@each
def test_rows_are_taken_out_as_they_were_put_in(
    scheme: str, spec: LinearSpec, binding: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_layout, "MAX_BINDING", binding)
    found = SCHEMES[scheme]
    with write_tensors(tmp_path, make_sources(spec)) as reader:
        tensors = packed(GPU, found, spec, reader)
        blocks = [rows for _, rows in coded_blocks(found, spec, quantized(found, spec, reader))]
    total = padded_rows(spec)
    for first, stop in ((0, total), (5, 6), (total // 2 - 3, total)):
        taken = take_rows(found, spec, first, stop, tensors)
        codes = np.concatenate([block.codes for block in blocks])
        np.testing.assert_array_equal(taken.codes, codes[first:stop])
        assert taken.groups.keys() == blocks[0].groups.keys()
        for name, values in taken.groups.items():
            numbers = np.concatenate([block.groups[name] for block in blocks])
            assert values.dtype == numbers.dtype
            np.testing.assert_array_equal(values, numbers[first:stop])


def test_parts_are_named_by_number_only_where_there_are_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheme = find_scheme("f32")
    assert [part.name for part in linear_parts(scheme, STACKED)] == ["l"]
    monkeypatch.setattr(gpu_layout, "MAX_BINDING", 64 * 96 * 4)
    assert [(p.name, p.first, p.rows) for p in linear_parts(scheme, STACKED)] == [
        ("l.0", 0, 64),
        ("l.1", 64, 32),
    ]


@given(
    scheme=st.sampled_from(sorted(SCHEMES)),
    rows=st.integers(1, 300_000),
    k=st.integers(1, 30_000),
)
def test_parts_cover_all_rows_and_fit_a_binding(scheme: str, rows: int, k: int) -> None:
    spec = LinearSpec("l", ("a",), (rows,), k)
    parts = linear_parts(find_scheme(scheme), spec)
    assert [p.first for p in parts] == [sum(q.rows for q in parts[:i]) for i in range(len(parts))]
    assert sum(p.rows for p in parts) == padded_rows(spec)
    bits = int(re.sub(r"\D", "", find_scheme(scheme).code))
    assert all(p.rows * padded_k(spec) * bits // 8 <= MAX_BINDING for p in parts)
    assert all(p.rows % 32 == 0 for p in parts)


def test_the_norms_of_queries_and_keys_share_a_tensor() -> None:
    places = [GPU.place(VectorSpec(f"layers.0.{name}", "w", 64)) for name in ("q_norm", "k_norm")]
    assert [place.name for place in places] == ["layers.0.qk_norm.weight"] * 2
    assert [place.index for place in places] == [0, 1]
    assert {place.spec.shape for place in places} == {(2, 64)}
