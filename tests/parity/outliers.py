"""Tiny checkpoints with a few channels far larger than the rest, at every place of a model.

A channel is multiplied where it is made and divided where it is read, so that the model computes
what it did before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.parity.cases import CASES
from tests.parity.make_checkpoints import make_weights, write_checkpoint
from tests.parity.storing import write_weights

Tensors = dict[str, NDArray[np.float32]]
Config = Mapping[str, Any]
Change = Callable[[Config, Tensors], object]

READERS = {
    "input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj"),
}
ALL = range(1 << 16)
"""Every channel there is."""
OVERFLOWING = 300
"""The token whose keys `overflowing` makes too large for float16."""


def few(count: int) -> NDArray[np.int64]:
    """4 of every 128 channels, and of them one in each group of 32: no group is spared."""
    wanted = np.arange(count) % 128
    return np.flatnonzero(np.isin(wanted, (3, 37, 70, 101)))


def norms(config: Config, w: Tensors, factor: float, channels: Sequence[int] | None = None) -> None:
    """Elements of the norms' weights against columns of what reads the norms."""
    large = few(config["hidden_size"]) if channels is None else [*channels][: config["hidden_size"]]
    for i in range(config["num_hidden_layers"]):
        for norm, modules in READERS.items():
            w[f"model.layers.{i}.{norm}.weight"][large] *= np.float32(factor)
            for module in modules:
                w[f"model.layers.{i}.{module}.weight"][:, large] /= np.float32(factor)
    if "lm_head.weight" in w:
        w["model.norm.weight"][large] *= np.float32(factor)
        w["lm_head.weight"][:, large] /= np.float32(factor)


def values(config: Config, w: Tensors, factor: float) -> None:
    """Rows of values against the columns of every head that shares them."""
    heads, kv, dim = (
        config[f"{name}"] for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    large = few(kv * dim)
    column = np.arange(heads * dim)
    read = np.isin(column // dim // (heads // kv) * dim + column % dim, large)
    for i in range(config["num_hidden_layers"]):
        attention = f"model.layers.{i}.self_attn"
        _rows(w, f"{attention}.v_proj", large, factor)
        w[f"{attention}.o_proj.weight"][:, read] /= np.float32(factor)


def ups(config: Config, w: Tensors, factor: float) -> None:
    """Rows of what gates multiply against the columns of what comes after."""
    large = few(config["intermediate_size"])
    for i in range(config["num_hidden_layers"]):
        _rows(w, f"model.layers.{i}.mlp.up_proj", large, factor)
        w[f"model.layers.{i}.mlp.down_proj.weight"][:, large] /= np.float32(factor)


def everywhere(config: Config, w: Tensors, factor: float) -> None:
    """All of them at once."""
    for change in (norms, values, ups):
        change(config, w, factor)


def _rows(w: Tensors, module: str, rows: NDArray[np.int64], factor: float) -> None:
    for kind in ("weight", "bias"):
        if f"{module}.{kind}" in w:
            w[f"{module}.{kind}"][rows] *= np.float32(factor)


def write_changed(case: str, folder: Path, change: Change) -> tuple[Path, Tensors]:
    """Write the case into ``folder`` with changed weights, in float32; and return them."""
    target = write_checkpoint(case, folder)
    for path in target.glob("model*.safetensors*"):
        path.unlink()
    tensors = make_weights(CASES[case])
    change(CASES[case].config, tensors)
    write_weights(target, tensors, "F32", 1)
    return target, tensors


def overflowing(config: Config, w: Tensors, layer: int = 1) -> None:
    """Large keys against small queries in a layer, and a token that lies along all of these keys.

    A normalized row is at most the root of its width times as long in one direction as it usually
    is: keys are some thousands, and that token's more than 65504, the largest float16.
    """
    attention = f"model.layers.{layer}.self_attn"
    keys, queries = (w[f"{attention}.{part}_proj.weight"] for part in ("k", "q"))
    along = np.sign(keys[0])
    keys[:] = along * np.abs(keys).mean() * np.float32(10_000)
    queries /= np.float32(500)
    w["model.embed_tokens.weight"][OVERFLOWING] = along * np.float32(1000)


def write_overflowing(folder: Path) -> Path:
    """Write a checkpoint that `overflowing` has changed into ``folder / "overflowing"``."""
    target, _ = write_changed("llama-mha", folder, overflowing)
    return target.rename(folder / "overflowing")
