"""The gpu layout holds the cpu layout's numbers, row by row, in pieces that fit a binding."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edgewise_compiler.quantize.linear import pack_linear
from edgewise_compiler.quantize.panels import padded_k, padded_rows
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.layouts import rows as gpu_layout
from edgewise_compiler.layouts.rows import MAX_BINDING, gpu_specs, linear_parts, pack_gpu_layout
from edgewise_compiler.models.base import LinearSpec, ModelConfig, VectorSpec
from edgewise_compiler.quantize import SCHEMES, find_scheme
from tests.compiler.quantize.test_packing import SPECS, STACKED, make_sources, write_tensors

DEMO = Path(__file__).parents[3] / "examples/demo-model"
Arrays = dict[str, NDArray[Any]]


@cache
def config() -> ModelConfig:
    with open_checkpoint(DEMO) as checkpoint:
        return checkpoint.model


def packed_for_gpu(folder: Path, scheme_name: str, spec: LinearSpec) -> Arrays:
    """The tensors as they lie in the files, by name."""
    scheme = find_scheme(scheme_name)
    specs = gpu_specs(scheme, config(), (spec,), 8)
    with write_tensors(folder, make_sources(spec)) as reader:
        entries = pack_gpu_layout(
            folder / "gpu", "gpu", scheme, config(), (spec,), specs, reader, lambda a, b: None
        )
    return {
        name: np.fromfile(
            folder / entry.file, entry.dtype, int(np.prod(entry.shape)), offset=entry.offset
        ).reshape(entry.shape)
        for name, entry in entries.items()
    }


def rows_of(panels: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([panel.T for panel in panels])


def joined(arrays: Arrays, suffix: str) -> NDArray[Any]:
    parts = [array for name, array in arrays.items() if name.endswith(suffix)]
    return np.concatenate(parts)


@pytest.mark.parametrize("binding", [MAX_BINDING, 64 * 64], ids=["whole", "in parts"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.rows}x{spec.k}")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_hold_what_panels_hold(
    scheme: str, spec: LinearSpec, binding: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_layout, "MAX_BINDING", binding)
    ours = packed_for_gpu(tmp_path, scheme, spec)
    with write_tensors(tmp_path, make_sources(spec)) as reader:
        theirs = pack_linear(find_scheme(scheme), spec, reader)
    weight = rows_of(theirs["l.weight"])
    assert joined(ours, ".weight").tobytes() == np.ascontiguousarray(weight).tobytes()
    if "l.scale" in theirs:
        scale = joined(ours, ".scale").view(np.float16)
        np.testing.assert_array_equal(scale, rows_of(theirs["l.scale"]).ravel())
    if spec.biases is not None:
        np.testing.assert_array_equal(joined(ours, ".bias"), theirs["l.bias"])


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
    bits = {"f32": 32, "f16": 16, "q8": 8, "q4": 4}[scheme]
    assert all(p.rows * padded_k(spec) * bits // 8 <= MAX_BINDING for p in parts)
    assert all(p.rows % 32 == 0 for p in parts)


def test_the_norms_of_queries_and_keys_share_a_tensor(tmp_path: Path) -> None:
    params = (VectorSpec("layers.0.q_norm", "a", 64), VectorSpec("layers.0.k_norm", "b", 64))
    scheme = find_scheme("f32")
    specs = gpu_specs(scheme, config(), params, 8)
    a, b = np.random.default_rng(0).standard_normal((2, 64), dtype=np.float32)
    with write_tensors(tmp_path, {"a": a, "b": b}) as reader:
        entries = pack_gpu_layout(
            tmp_path / "gpu", "gpu", scheme, config(), params, specs, reader, lambda a, b: None
        )
    entry = entries["layers.0.qk_norm.weight"]
    stored = np.fromfile(tmp_path / entry.file, np.float32, 128, offset=entry.offset)
    np.testing.assert_array_equal(stored.reshape(2, 64), [a, b])
