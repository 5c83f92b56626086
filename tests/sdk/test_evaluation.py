"""Perplexity, sizes and divergence of tiny models, and texts and models that cannot be scored."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise import EdgewiseError, Engine, evaluate
from edgewise.cache import cached_bundle
from edgewise.hub.names import HubModel
from edgewise.hub.pull import find
from edgewise.scorers import open_scorer
from edgewise_runtime.installed import LLAMA_CPP, Package
from tests.parity.cases import CASES
from tests.parity.make_checkpoints import make_weights
from tests.sdk.conftest import CASE
from tests.sdk.hub.small_hub import SmallHub

TEXT = "The quick brown fox jumps over the lazy dog, and Zürich is not 東京. " * 9


@pytest.fixture(scope="module")
def exact(bundles: Callable[..., Path]) -> Path:
    """The same weights as those of `bundle`, in float32."""
    return bundles(CASE, quant="f32")


Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def edited(checkpoints: Callable[[str], Path], tmp_path: Path) -> Callable[[Edit], Path]:
    """The checkpoint with another tokenizer.json."""

    def edit_copy(edit: Edit) -> Path:
        copy = Path(shutil.copytree(checkpoints(CASE), tmp_path / "edited"))
        tokenizer = json.loads((copy / "tokenizer.json").read_text())
        edit(tokenizer)
        (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
        return copy

    return edit_copy


def swap_tokens(tokenizer: dict[str, Any]) -> None:
    """Tokens 300 and 301 change places."""
    ids = tokenizer["model"]["vocab"]
    ids |= {text: 601 - i for text, i in ids.items() if i in (300, 301)}


def begin_texts(tokenizer: dict[str, Any]) -> None:
    """Every text begins with <|begin|>, token 0."""
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|begin|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [0], "tokens": ["<|begin|>"]}},
    }


def by_hand(engine: Engine, context: int, begin: list[int]) -> np.ndarray:
    """Log-probabilities [scored tokens, vocabulary + 1], the token that came in the last column."""
    ids = engine.tokenizer.encode(TEXT)
    rows = []
    for start in range(0, len(ids) - context + 1, context):
        window = begin + ids[start + len(begin) : start + context]
        logits = engine.score(window).astype("float64")
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        rows += [[*logs[i], logs[i, window[i + 1]]] for i in range(context // 2, context - 1)]
    return np.array(rows)


def test_a_model_is_nowhere_apart_from_itself(bundle: Path) -> None:
    found = evaluate(bundle, bundle, TEXT, context=64)
    assert found.apart is not None
    assert found.reference is not None
    assert asdict(found.apart) == {"mean": 0, "median": 0, "p999": 0, "same_top1": 1}
    assert found.model.perplexity == found.reference.perplexity


def test_the_second_half_of_every_whole_window_is_scored(engine: Engine, bundle: Path) -> None:
    found = evaluate(bundle, None, TEXT, context=64)
    expected = by_hand(engine, 64, [])
    assert found.scored_tokens == len(expected) == 31 * found.windows
    assert found.windows > 2
    assert found.model.perplexity == pytest.approx(np.exp(-expected[:, -1].mean()), rel=1e-6)
    assert found.reference is found.apart is None


def test_the_divergence_is_the_references_from_the_model(
    engine: Engine, bundle: Path, exact: Path
) -> None:
    found = evaluate(bundle, exact, TEXT, context=65)
    with Engine(exact) as reference:
        p, q = by_hand(reference, 65, [])[:, :-1], by_hand(engine, 65, [])[:, :-1]
    nats = (np.exp(p) * (p - q)).sum(axis=1)
    assert found.apart is not None
    assert found.apart.mean == pytest.approx(nats.mean(), rel=1e-5)
    assert found.apart.median == pytest.approx(np.median(nats), rel=1e-5)
    assert nats.mean() < found.apart.p999 <= nats.max() * (1 + 1e-5)
    assert found.apart.same_top1 == (p.argmax(axis=1) == q.argmax(axis=1)).mean()
    assert found.model.name == bundle.name
    assert found.reference is not None
    assert found.model.bits_per_weight < found.reference.bits_per_weight / 5


@pytest.mark.landing
def test_windows_begin_with_the_token_that_texts_begin_with(
    edited: Callable[[Edit], Path],
) -> None:
    checkpoint = edited(begin_texts)
    found = evaluate(checkpoint, None, TEXT, context=64)
    with Engine(cached_bundle(checkpoint, "f32")) as engine:
        expected = by_hand(engine, 64, [0])
    assert found.model.perplexity == pytest.approx(np.exp(-expected[:, -1].mean()), rel=1e-6)
    assert found.model.name == checkpoint.name


def test_a_model_of_a_hub_is_called_after_its_repository(
    bundle: Path, hub: SmallHub, checkpoints: Callable[[str], Path]
) -> None:
    files = {path.name: path.read_bytes() for path in checkpoints(CASE).iterdir()}
    hub.add("tiny/llama", files)
    shutil.copytree(bundle, cached_bundle(find(HubModel("tiny/llama")), "f32"))
    found = evaluate("hf:tiny/llama", None, TEXT, context=32, tokens=95)
    assert found.model.name == "llama"


def test_no_more_tokens_are_taken_than_asked_for(bundle: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    found = evaluate(
        bundle, None, TEXT, context=32, tokens=95, progress=lambda *told: heard.append(told)
    )
    assert (found.windows, found.scored_tokens) == (2, 2 * 15)
    assert heard == [("score", 1, 2), ("score", 2, 2)]


@pytest.mark.landing
@pytest.mark.parametrize("case", [CASE, "llama-gqa4-bias-llama3", "qwen3-gqa4-d96-bias"])
def test_the_weights_are_those_of_the_checkpoint(case: str, bundles: Callable[..., Path]) -> None:
    path = bundles(case)
    with open_scorer(path, context=64, threads=None, trust=False, progress=None) as scorer:
        assert scorer.weights == sum(t.size for t in make_weights(CASES[case]).values())
        stored = sum(file.stat().st_size for file in path.glob("params/cpu/*"))
        assert scorer.weights * 4.5 / 8 < scorer.weight_bytes < stored


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ("", {}, "input.text"),
        (" \n", {}, "input.text"),
        ("short", {}, "input.text"),
        (TEXT, {"context": 3}, "input.range"),
        (TEXT, {"context": 64, "tokens": 63}, "input.range"),
        (TEXT, {"context": 257}, "input.context"),
        ("\ud800" * 99, {"context": 64}, "input.text"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    bundle: Path, text: str, options: dict[str, int], code: str
) -> None:
    with pytest.raises(EdgewiseError) as caught:
        evaluate(bundle, None, text, **{"context": 64, **options})
    assert caught.value.code == code
    assert caught.value.message.count("\n") == 0


@pytest.mark.landing
@pytest.mark.parametrize(
    ("edit", "said"), [(swap_tokens, "token 300 is "), (begin_texts, "place 0")]
)
def test_models_of_other_tokenizers_are_not_compared(
    bundle: Path, edited: Callable[[Edit], Path], edit: Edit, said: str
) -> None:
    with pytest.raises(EdgewiseError, match=said) as caught:
        evaluate(bundle, edited(edit), TEXT, context=64)
    assert caught.value.code == "input.tokenizer"


@pytest.mark.landing
def test_models_of_other_vocabularies_are_not_compared(
    bundle: Path, bundles: Callable[..., Path]
) -> None:
    with pytest.raises(EdgewiseError, match="320 tokens, the other 333"):
        evaluate(bundle, bundles("qwen3-gqa4-d96-bias"), TEXT, context=64)


@pytest.mark.parametrize("name", ["nowhere", "nowhere.gguf"])
def test_a_reference_that_is_not_there_is_said_to_be(bundle: Path, name: str) -> None:
    with pytest.raises(EdgewiseError, match=name) as caught:
        evaluate(bundle, name, TEXT, context=64)
    assert caught.value.code == "input.model"


def test_a_gguf_file_needs_a_package_that_is_named(
    tmp_path: Path, without: Callable[[Package], None]
) -> None:
    without(LLAMA_CPP)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(EdgewiseError, match="pip install llama-cpp-python") as caught:
        evaluate(tmp_path / "model.gguf", None, TEXT, context=64)
    assert caught.value.code == "unsupported.llama_cpp"


def test_an_interrupt_ends_what_was_loaded(bundle: Path) -> None:
    before = set(threading.enumerate())

    def press_ctrl_c(phase: str, done: int, total: int) -> None:
        assert set(threading.enumerate()) > before
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(bundle, bundle, TEXT, context=64, progress=press_ctrl_c)
    assert set(threading.enumerate()) == before
