"""A calibrated bundle holds codes that were chosen for what its linears are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.calibrate.codes import (
    SEARCH_LENGTH,
    Calibration,
    calibrated_codes,
    importance_of,
    read_calibration,
)
from edgewise_compiler.calibrate.interpret import forward
from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.layouts.order import coded_blocks
from edgewise_compiler.layouts.packing import quantized
from edgewise_compiler.layouts.schemes import Schemes, linear_schemes
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import PRESETS, SCHEMES, AnyScheme, Recipe, Rule, Split
from edgewise_compiler.quantize.codes import RowSource
from edgewise_compiler.quantize.search import search
from edgewise_runtime.errors import CompileError, StorageError
from edgewise_runtime.format.bundle import Bundle
from tests.parity.reference import load_weights, logits

Checkpoints = Callable[[str], Path]
Q4 = SCHEMES["q4"]


def schemes_of(checkpoint: Checkpoint, quant: str) -> Schemes:
    return linear_schemes(PRESETS[quant], checkpoint.family.params(checkpoint.model))


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("name", ["llama-gqa2-tied-linear", "qwen3-gqa4-d96-bias"])
@pytest.mark.parametrize(("gptq", "better"), [(True, 0.9), (False, 0.98)], ids=["gptq", "search"])
def test_calibrated_codes_change_logits_less_than_the_nearest(
    checkpoints: Checkpoints, name: str, gptq: bool, better: float
) -> None:
    rng = np.random.default_rng(7)
    steps: list[tuple[int, int]] = []
    weights = load_weights(checkpoints(name))
    with open_checkpoint(checkpoints(name)) as checkpoint:
        cfg = checkpoint.model
        tokens, held = rng.integers(0, cfg.vocab, (8, 64)), rng.integers(0, cfg.vocab, 64)
        schemes = schemes_of(checkpoint, "q4")
        sources = calibrated_codes(
            checkpoint, schemes, Calibration(tokens, gptq), lambda *step: steps.append(step)
        )
        codes = {key: source(0, len(weights[key])) for key, source in sources.items()}
    k = {key: w.shape[1] for key, w in weights.items() if w.ndim == 2}
    padded = {key: np.pad(weights[key], ((0, 0), (0, -k[key] % 32))) for key in codes}
    rounded = {key: Q4.quantize(rows) for key, rows in padded.items()}
    nearest, chosen = (
        {key: Q4.dequantize(coded)[:, : k[key]] for key, coded in way.items()}
        for way in (rounded, codes)
    )
    exact = logits(cfg, weights, held)
    near, far = (
        np.square(logits(cfg, weights | w, held) - exact).mean() for w in (chosen, nearest)
    )
    assert near < better * far, (near, far)
    head = "model.embed_tokens.weight" if cfg.tied else "lm_head.weight"
    assert codes.keys() == k.keys() - {"model.embed_tokens.weight"} | {head}
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1]


def test_nothing_is_chosen_without_a_text_or_for_a_scheme_without_levels(
    checkpoints: Checkpoints,
) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        none, text = (read_calibration(checkpoint, given, searched=True) for given in (False, True))
        for quant, given in (("q4", none), ("q8", text)):
            schemes = schemes_of(checkpoint, quant)
            assert not calibrated_codes(checkpoint, schemes, given, lambda *step: None)


def test_a_little_of_the_neutral_text_is_enough_for_a_search(checkpoints: Checkpoints) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        whole = read_calibration(checkpoint, True, searched=True)
        little = read_calibration(checkpoint, None, searched=True)
        nothing = read_calibration(checkpoint, None, searched=False)
    assert whole.gptq
    assert not little.gptq
    np.testing.assert_array_equal(little.tokens, whole.tokens[:, :SEARCH_LENGTH])
    assert not len(nothing.tokens)
    kinds = (whole, little, nothing, Calibration(whole.tokens, gptq=False))
    assert len({bytes(kind) for kind in kinds}) == 4


def test_codes_are_searched_block_by_block_as_at_once(checkpoints: Checkpoints) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        text = read_calibration(checkpoint, None, searched=True)
        schemes = schemes_of(checkpoint, "small")
        codes = calibrated_codes(checkpoint, schemes, text, lambda *step: None)
        rows = codes["model.layers.0.self_attn.v_proj.weight"]
        whole, parts = rows(0, 32), [rows(0, 12), rows(12, 32)]
    assert int(whole.codes.max()) == 31
    for of in (lambda r: r.codes, lambda r: r.groups["scale"]):
        np.testing.assert_array_equal(of(whole), np.concatenate([of(part) for part in parts]))


@pytest.mark.landing
def test_of_a_mixed_recipe_only_matrices_with_levels_are_chosen_for(
    checkpoints: Checkpoints,
) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        text = replace(read_calibration(checkpoint, True, searched=False), gptq=False)
        recipe = Recipe("head", Q4, (Rule(("lm_head.weight",), SCHEMES["q8"]),))
        schemes = linear_schemes(recipe, checkpoint.family.params(checkpoint.model))
        codes = calibrated_codes(checkpoint, schemes, text, lambda *step: None)
    assert "lm_head.weight" not in codes
    assert "model.layers.0.mlp.down_proj.weight" in codes


@pytest.mark.parametrize("gptq", [False, True])
def test_rows_in_two_schemes_are_chosen_for_by_themselves(
    gptq: bool, checkpoints: Checkpoints
) -> None:
    first, rest = SCHEMES["q6_nl"], SCHEMES["q4"]
    name = "lm_head.weight"
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        text = replace(read_calibration(checkpoint, True, searched=False), gptq=gptq)

        def codes_in(scheme: AnyScheme) -> RowSource:
            recipe = Recipe("head", Q4, (Rule((name,), scheme),))
            schemes = linear_schemes(recipe, checkpoint.family.params(checkpoint.model))
            return calibrated_codes(checkpoint, schemes, text, lambda *step: None)[name]

        split = codes_in(Split(first, 128, rest))
        for scheme, start, stop in ((first, 0, 128), (first, 5, 128), (rest, 128, 300)):
            alone, found = codes_in(scheme)(start, stop), split(start, stop)
            np.testing.assert_array_equal(found.codes, alone.codes)
            np.testing.assert_array_equal(found.groups["scale"], alone.groups["scale"])
        same = codes_in(Split(first, 128, first))
        for start, stop in ((0, 128), (128, 300)):
            np.testing.assert_array_equal(
                same(start, stop).codes, codes_in(first)(start, stop).codes
            )
        with pytest.raises(CompileError, match="127 to 129"):
            split(127, 129)


def test_packing_takes_codes_that_are_there_and_quantizes_the_rest(
    checkpoints: Checkpoints,
) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        spec = next(
            param
            for param in checkpoint.family.params(checkpoint.model)
            if isinstance(param, LinearSpec) and param.name == "layers.0.qkv"
        )
        query, key, _ = spec.sources
        own = Q4.quantize(checkpoint.weights.read(query))
        own.codes[:] = 15 - own.codes
        source = quantized(Q4, spec, checkpoint.weights, {query: own.part})
        packed = np.concatenate([rows.codes for _, rows in coded_blocks(Q4, spec, source)])
        np.testing.assert_array_equal(packed[: spec.rows[0]], own.codes)
        nearest = Q4.quantize(checkpoint.weights.read(key)).codes
        np.testing.assert_array_equal(packed[spec.rows[0] :][: spec.rows[1]], nearest)


@pytest.mark.full
def test_a_calibrated_bundle_is_another_one(checkpoints: Checkpoints, tmp_path: Path) -> None:
    folder = checkpoints("llama-gqa2-tied-linear")
    nearest, searched, calibrated = (
        Bundle.open(compile_model(folder, tmp_path / name, quant="small", calibrate=text)).manifest
        for name, text in (("nearest", False), ("searched", None), ("calibrated", True))
    )
    assert len({m.weights_id for m in (nearest, searched, calibrated)}) == 3
    assert nearest.layouts.keys() == searched.layouts.keys() == calibrated.layouts.keys()
    with pytest.raises(StorageError, match=r"none\.txt"):
        compile_model(folder, tmp_path / "nearest", calibrate=tmp_path / "none.txt")


def test_experts_are_searched_by_what_their_own_rows_are_given(checkpoints: Checkpoints) -> None:
    folder = checkpoints("qwen3moe-step")
    weights, seen = load_weights(folder), {}
    with open_checkpoint(folder) as checkpoint:
        parts = checkpoint.family, checkpoint.model, checkpoint.weights
        tokens = np.random.default_rng(3).integers(0, checkpoint.model.vocab, (2, 40))
        forward(*parts, tokens, observe=lambda spec, x: seen.update(dict.fromkeys(spec.sources, x)))
        schemes = schemes_of(checkpoint, "q4")
        sources = calibrated_codes(
            checkpoint, schemes, Calibration(tokens, gptq=True), lambda *_: None
        )
        experts = [name for name in sources if ".experts." in name]
        for name in experts[::7]:
            rows = weights[name]
            found = sources[name](0, len(rows))
            padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 32)))
            assert Q4.levels is not None
            wanted = search(padded, importance_of(seen[name]), Q4.levels)
            assert (found.codes == wanted.codes).all()
    downs = [x for name, x in seen.items() if "layers.0.mlp.experts" in name and "down" in name]
    assert sum(map(len, downs)) == tokens.size * 3
    assert {name.split(".")[2] for name in experts} == {"0", "2"}
