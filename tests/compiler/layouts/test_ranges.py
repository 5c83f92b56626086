"""What float16 loses is refused where nothing larger stands beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.compile import compile_model
from edgewise_compiler.layouts.packing import quantized
from edgewise_compiler.layouts.ranges import check_norm, checked
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.errors import CheckpointError
from tests.compiler.layouts.linears import write_tensors
from tests.parity.outliers import Config, Tensors, write_changed

SPEC = LinearSpec("l", ("w",), (96,), 64)


def ordinary() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((96, 64), dtype=np.float32) / 8


def pack(folder: Path, scheme: str, weights: np.ndarray) -> None:
    """Read as packing reads: some rows at a time, in order."""
    with write_tensors(folder, {"w": weights}) as reader:
        source = checked(SPEC, reader, quantized(SCHEMES[scheme], SPEC, reader))
        for start in range(0, 96, 32):
            source("w", start, start + 32)


STEPS = {"f16": 1, "q8": 127, "q6": 32, "q5_nl": 24, "q4": 8, "iq4_nl": 127, "mxfp4": 12}
SMALLEST = {scheme: steps * 2.0**-18 for scheme, steps in STEPS.items()}
"""The largest weight of a tensor that a scheme takes."""


@pytest.mark.parametrize(("scheme", "least"), SMALLEST.items())
def test_a_tensor_too_small_for_its_scheme_is_refused_by_name(
    scheme: str, least: float, tmp_path: Path
) -> None:
    rows = ordinary()
    rows *= np.float32(least / np.abs(rows).max())
    pack(tmp_path, scheme, rows)
    with pytest.raises(
        CheckpointError, match=r"^l \(w\): The largest weight is .*float16"
    ) as caught:
        pack(tmp_path, scheme, rows / np.float32(1.1))
    assert (caught.value.code, "f32" in caught.value.remedy) == ("checkpoint.range", True)


def test_float32_holds_any_tensor(tmp_path: Path) -> None:
    pack(tmp_path, "f32", ordinary() * np.float32(1e-30))


def small_rows(rows: np.ndarray) -> None:
    rows[:60] *= np.float32(1e-20)


def small_columns(rows: np.ndarray) -> None:
    rows[:, 32:] *= np.float32(1e-9)


LEGITIMATE: dict[str, Callable[[np.ndarray], object]] = {
    "zeros": lambda rows: rows.fill(0),
    "rows of padding": small_rows,
    "pruned columns": small_columns,
    "nearly zero": partial(np.multiply, np.float32(2.0**-50)),
    "one row": lambda rows: rows[1:].fill(0),
}


@pytest.mark.parametrize("scheme", SMALLEST)
@pytest.mark.parametrize("what", LEGITIMATE)
def test_zeros_and_small_values_beside_others_are_taken(
    what: str, scheme: str, tmp_path: Path
) -> None:
    rows = ordinary()
    LEGITIMATE[what](rows)
    pack(tmp_path, scheme, rows)


def test_a_norm_beyond_what_float16_inputs_hold_is_refused() -> None:
    spec = VectorSpec("layers.0.attn_norm", "n.weight", 256)
    check_norm(spec, np.full(256, 65536, np.float32))
    with pytest.raises(
        CheckpointError, match=r"layers\.0\.attn_norm \(n\.weight\).*65537"
    ) as caught:
        check_norm(spec, np.full(256, -65537, np.float32))
    assert caught.value.code == "checkpoint.range"


def loud_norm(config: Config, w: Tensors) -> None:
    w["model.norm.weight"] *= np.float32(1e6)


def faint_values(config: Config, w: Tensors) -> None:
    w["model.layers.0.self_attn.v_proj.weight"] *= np.float32(1e-6)


@pytest.mark.parametrize(
    ("change", "options", "what"),
    [
        (loud_norm, {"targets": ("webgpu",), "quant": "f32"}, "model.norm.weight"),
        (faint_values, {"quant": "q8"}, "v_proj.weight"),
    ],
)
def test_a_checkpoint_that_float16_does_not_hold_leaves_no_bundle(
    change: Callable[[Config, Tensors], None], options: dict[str, str], what: str, tmp_path: Path
) -> None:
    folder, _ = write_changed("llama-mha", tmp_path, change)
    with pytest.raises(CheckpointError, match=what) as caught:
        compile_model(folder, tmp_path / "bundle", **options)
    assert caught.value.code == "checkpoint.range"
    assert not (tmp_path / "bundle").exists()
