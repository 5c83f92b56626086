"""What stands out on both sides of a seam is evened out; anything else keeps every bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.smoothing import smoothed
from tests.parity.outliers import Change, Config, Tensors, few, norms, ups, values, write_changed

CASE = "llama-gqa4-bias-llama3"
HIDDEN = 128
NORM = "model.layers.1.post_attention_layernorm.weight"
UP = "model.layers.1.mlp.up_proj"
DOWN = "model.layers.1.mlp.down_proj.weight"


def factors(folder: Path, raw: Tensors, fixed: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """By what tensors that changed were multiplied."""
    with open_checkpoint(folder) as checkpoint:
        reader = smoothed(checkpoint, fixed).weights
        changed = {name: reader.read(name) for name in raw}
    return {
        name: np.divide(values, raw[name], out=np.ones_like(values), where=raw[name] != 0)
        for name, values in changed.items()
        if not np.array_equal(values, raw[name])
    }


def norm_alone(config: Config, w: Tensors) -> None:
    w[NORM][few(HIDDEN)] *= 100


def columns_alone(config: Config, w: Tensors) -> None:
    for part in ("gate", "up"):
        w[f"model.layers.1.mlp.{part}_proj.weight"][:, few(HIDDEN)] /= 100


def one_reader_of_two(config: Config, w: Tensors) -> None:
    norm_alone(config, w)
    w[f"{UP}.weight"][:, few(HIDDEN)] /= 100


def rows_alone(config: Config, w: Tensors) -> None:
    w[f"{UP}.weight"][few(256)] *= 100


LEFT: dict[str, Change] = {
    "nothing": lambda config, w: None,
    "a norm alone": norm_alone,
    "columns alone": columns_alone,
    "rows alone": rows_alone,
    "a norm that one of two matrices takes back": one_reader_of_two,
    "a norm small for large columns": partial(norms, factor=0.01),
    "channels six times as large": partial(norms, factor=6),
    "zeros": lambda config, w: [w[name].fill(0) for name in (NORM, f"{UP}.weight", DOWN)],
    "all rows large": lambda config, w: w[f"{UP}.weight"].__imul__(np.float32(100)),
}


@pytest.mark.parametrize("change", LEFT.values(), ids=LEFT)
def test_nothing_changes_where_one_side_would_lose(change: Change, tmp_path: Path) -> None:
    folder, _ = write_changed(CASE, tmp_path, change)
    with open_checkpoint(folder) as checkpoint:
        assert smoothed(checkpoint) is checkpoint


def test_zeros_of_padded_heads_do_not_stand_out(checkpoints: Callable[[str], Path]) -> None:
    with open_checkpoint(checkpoints("llama-d8-bias-llama3")) as checkpoint:
        assert smoothed(checkpoint) is checkpoint


def test_values_of_padded_heads_are_evened_out(tmp_path: Path) -> None:
    case = "llama-d8-bias-llama3"
    folder, _ = write_changed(case, tmp_path, partial(values, factor=100))
    with open_checkpoint(folder) as checkpoint:
        even = smoothed(checkpoint).weights
        names = [f"model.layers.1.self_attn.{part}.weight" for part in ("v_proj", "o_proj")]
        (v, o), (loud, quiet) = (
            [reader.read(name) for name in names] for reader in (even, checkpoint.weights)
        )
    rows, columns = (v != loud).any(axis=1), (o != quiet).any(axis=0)
    assert rows.sum() == 1, "channel 3 of 16"
    assert columns.sum() == 4, "of every head that shares it"


def test_channels_and_columns_get_powers_of_two_that_cancel(tmp_path: Path) -> None:
    found = factors(*write_changed(CASE, tmp_path, partial(ups, factor=100)))
    assert found.keys() == {
        name.replace("layers.1", f"layers.{i}")
        for i in range(2)
        for name in (f"{UP}.weight", f"{UP}.bias", DOWN)
    }
    rows, bias, columns = found[f"{UP}.weight"], found[f"{UP}.bias"], found[DOWN]
    np.testing.assert_array_equal(rows, bias[:, None].repeat(HIDDEN, axis=1))
    np.testing.assert_array_equal(bias * columns, np.ones_like(columns))
    assert set(np.unique(bias)) <= {1.0, 1 / 32, 1 / 64, 1 / 128}
    np.testing.assert_array_equal(np.flatnonzero(bias != 1), few(256))


@pytest.mark.parametrize(
    ("change", "name"), [(ups, f"{UP}.bias"), (values, "model.layers.1.self_attn.v_proj.bias")]
)
def test_rows_that_are_small_for_large_columns_are_made_larger(
    change: partial[None], name: str, tmp_path: Path
) -> None:
    found = factors(*write_changed(CASE, tmp_path, partial(change, factor=0.01)))[name]
    np.testing.assert_array_equal(np.flatnonzero(found != 1), few(len(found)))
    assert set(np.unique(found)) <= {1.0, 32.0, 64.0, 128.0}


def test_a_channel_without_a_weight_on_the_other_side_is_no_larger_than_its_neighbours(
    tmp_path: Path,
) -> None:
    def change(config: Config, w: Tensors) -> None:
        norm_alone(config, w)
        for part in ("gate", "up"):
            w[f"model.layers.1.mlp.{part}_proj.weight"][:, few(HIDDEN)] = 0

    folder, raw = write_changed(CASE, tmp_path, change)
    weight = factors(folder, raw)[NORM] * raw[NORM]
    assert weight.max() < 8 * np.median(weight)


def test_what_is_fixed_stays_and_so_does_the_other_side(tmp_path: Path) -> None:
    folder, raw = write_changed(CASE, tmp_path, partial(ups, factor=100))
    found = factors(folder, raw, fixed=(DOWN,))
    assert found.keys() == {
        f"model.layers.0.mlp.{n}" for n in ("up_proj.weight", "up_proj.bias", "down_proj.weight")
    }


@pytest.mark.parametrize("large", [1e30, 3e38])
def test_weights_at_the_end_of_float32_do_no_harm(large: float, tmp_path: Path) -> None:
    def change(config: Config, w: Tensors) -> None:
        w[NORM][7] = large
        for part in ("gate", "up"):
            w[f"model.layers.1.mlp.{part}_proj.weight"][:, 7] = 1e-38
        w[f"{UP}.bias"][5] = large

    folder, raw = write_changed(CASE, tmp_path, change)
    weight = factors(folder, raw)[NORM]
    assert weight[7] == 2.0**-60
    assert (np.delete(weight, 7) == 1).all()
