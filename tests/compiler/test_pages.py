"""Keys and values too large for float16 pages are refused; larger pages take them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.pages import check_pages
from edgewise_runtime.errors import CheckpointError
from tests.parity import reference
from tests.parity.cases import CASES
from tests.parity.outliers import Change, Config, Tensors, write_changed

TOKENS = list(range(4, 36))
LAYER = "model.layers.1.self_attn"


def loud_norm(config: Config, w: Tensors) -> None:
    w["model.layers.1.input_layernorm.weight"][5] *= np.float32(1e6)


def loud_values(config: Config, w: Tensors) -> None:
    w[f"{LAYER}.v_proj.weight"][9] *= np.float32(1e6)


def loud_keys(config: Config, w: Tensors) -> None:
    w[f"{LAYER}.k_norm.weight"][3] = 17000


def loud_bias(config: Config, w: Tensors) -> None:
    w[f"{LAYER}.k_proj.bias"][2] = 17000


@pytest.mark.parametrize(
    ("case", "change", "what"),
    [
        ("llama-mha", loud_norm, "k_proj.weight"),
        ("llama-mha", loud_values, "v_proj.weight"),
        ("llama-gqa4-bias-llama3", loud_bias, "k_proj.weight"),
        ("qwen3-gqa2-tied", loud_keys, "k_norm.weight"),
    ],
)
@pytest.mark.parametrize("options", [{"quant": "q8"}, {"quant": "f32", "targets": ("webgpu",)}])
def test_what_float16_pages_do_not_hold_is_refused_by_name(
    case: str, change: Change, what: str, options: dict[str, str], tmp_path: Path
) -> None:
    folder, _ = write_changed(case, tmp_path, change)
    with pytest.raises(CheckpointError, match=f"{LAYER}.{what} makes keys or values") as caught:
        compile_model(folder, tmp_path / "bundle", **options)
    assert caught.value.code == "checkpoint.range"


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("options", [{"quant": "q8", "kv": "int8"}, {"quant": "f32"}])
def test_pages_with_scales_and_of_float32_take_it(options: dict[str, str], tmp_path: Path) -> None:
    folder, raw = write_changed("llama-mha", tmp_path, loud_values)
    bundle = compile_model(folder, tmp_path / "bundle", prefill_chunk=128, **options)
    with open_checkpoint(folder) as checkpoint:
        exact = reference.logits(checkpoint.model, raw, TOKENS)
    with Engine(bundle) as engine:
        error = engine.score(TOKENS) - exact
    assert np.sqrt(np.square(error).mean()) < 0.1 * exact.std()


@pytest.mark.parametrize("case", CASES)
def test_ordinary_keys_and_values_are_taken(case: str, checkpoints: Callable[[str], Path]) -> None:
    with open_checkpoint(checkpoints(case)) as checkpoint:
        check_pages(checkpoint)
