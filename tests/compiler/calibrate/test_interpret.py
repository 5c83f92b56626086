"""The graph computed in NumPy says what transformers says, and what linears are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.calibrate.interpret import Step, execute, forward, ignore
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.graph.build import FUSE, build_graphs
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.models.base import LinearSpec
from edgewise_runtime.errors import UnsupportedError
from tests.parity.cases import CASES
from tests.parity.make_goldens import load
from tests.parity.reference import load_weights

Checkpoints = Callable[[str], Path]


@pytest.mark.quick(cases=8)
@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_transformers(checkpoints: Checkpoints, name: str) -> None:
    golden = load(name)
    with open_checkpoint(checkpoints(name)) as checkpoint:
        logits = forward(
            checkpoint.family, checkpoint.model, checkpoint.weights, golden["tokens"][None]
        )
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits[golden["rows"]], golden["logits"], rtol=0, atol=1e-3)


def test_texts_do_not_see_each_other(checkpoints: Checkpoints) -> None:
    tokens = np.random.default_rng(3).integers(0, 320, (3, 20))
    with open_checkpoint(checkpoints("qwen3-gqa4-d96-bias")) as checkpoint:
        parts = (checkpoint.family, checkpoint.model, checkpoint.weights)
        together = forward(*parts, tokens)
        alone = np.concatenate([forward(*parts, text[None]) for text in tokens])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["llama-gqa2-tied-linear", "qwen3-gqa4-d96-bias"])
def test_what_every_linear_is_given_is_observed_with_and_without_logits(
    checkpoints: Checkpoints, name: str
) -> None:
    tokens = np.random.default_rng(4).integers(0, 320, (2, 30))
    weights = load_weights(checkpoints(name))
    seen: dict[str, np.ndarray] = {}
    again: dict[str, np.ndarray] = {}

    def observe(spec: LinearSpec, x: np.ndarray) -> None:
        seen.update(dict.fromkeys(spec.sources, x))

    def observe_again(spec: LinearSpec, x: np.ndarray) -> None:
        again.update(dict.fromkeys(spec.sources, x))

    with open_checkpoint(checkpoints(name)) as checkpoint:
        cfg = checkpoint.model
        parts = (checkpoint.family, cfg, checkpoint.weights)
        forward(*parts, tokens, observe=observe_again, logits=False)
        logits = forward(*parts, tokens, observe=observe)
    head = "model.embed_tokens.weight" if cfg.tied else "lm_head.weight"
    matrices = {key for key, w in weights.items() if w.ndim == 2} - {"model.embed_tokens.weight"}
    assert again.keys() == seen.keys() == matrices | {head}
    moments = {key: np.square(x.astype(np.float64)).mean(axis=0) for key, x in seen.items()}
    for key, x in again.items():
        np.testing.assert_allclose(np.square(x).mean(axis=0), moments[key], rtol=1e-5)
    np.testing.assert_allclose(seen[head] @ weights[head].T, logits, rtol=0, atol=1e-4)
    # The first layer's input is the normalized table of tokens: nothing of ours is needed for it.
    x = weights["model.embed_tokens.weight"][tokens.reshape(-1)].astype(np.float64)
    x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + cfg.rms_eps)
    x *= weights["model.layers.0.input_layernorm.weight"]
    for part in "qkv":
        found = moments[f"model.layers.0.self_attn.{part}_proj.weight"]
        np.testing.assert_allclose(found, np.square(x).mean(axis=0), rtol=1e-4)


def test_a_fused_graph_is_refused_by_name(checkpoints: Checkpoints) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        family, cfg = checkpoint.family, checkpoint.model
        graphs = build_graphs(family, cfg, linear_widths(family.params(cfg)), FUSE)
        unfused = build_graphs(family, cfg, linear_widths(family.params(cfg)), ())
        params = {spec.name: spec for spec in family.params(cfg)}
        step = Step(params, checkpoint.weights, np.arange(8)[None], ignore)
        x = execute(unfused["embed"], step, np.zeros((0, 0), np.float32))
        with pytest.raises(UnsupportedError, match=r"layers\.0\.o") as caught:
            execute(graphs["layers"], step, x)
    assert caught.value.code == "unsupported.operation"
