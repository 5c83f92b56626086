"""How a point is measured: files are made once, and a reference computes a window once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from answers import QUESTIONS, Answer, alike, told
from checkpoint import SHAPES, write_checkpoint
from edgewise.divergence import Logits
from edgewise_compiler.checkpoint import open_checkpoint
from engines import peer_command
from peers.gguf_writer import write_gguf
from scoring.models import MODELS, Model
from scoring.points import OURS, PEERS
from scoring.score import file, remembered, scored

ROOT = Path(__file__).parents[2]
TEXT = "The quick brown fox jumps over the lazy dog. " * 120


def test_what_was_computed_for_a_window_is_read_again(tmp_path: Path) -> None:
    asked: list[Sequence[int]] = []

    def logits(ids: Sequence[int]) -> Logits:
        asked.append(ids)
        return np.outer(ids, [1, 2]).astype(np.float32)

    for _ in range(2):
        read = remembered(logits, tmp_path / "kept")
        assert read([3, 4]).tolist() == [[3, 6], [4, 8]]
        assert read([5]).tolist() == [[5, 10]]
    assert asked == [[3, 4], [5]]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A random model whose bundles and scores go to a temporary folder."""
    write_checkpoint(tmp_path / "tiny", SHAPES["tiny"])
    monkeypatch.setattr("scoring.models.SCORES", tmp_path / "scores")

    def checkpoint() -> Path:
        return tmp_path / "tiny"

    return Model("tiny", "Tiny", checkpoint, checkpoint, lambda: TEXT)


@pytest.mark.full
def test_a_point_is_measured_with_all_that_the_page_needs(tiny: Model) -> None:
    found = scored(tiny, OURS["q8"], llama=None, threads=1)
    assert 0 < found["kl"]["median"] <= found["kl"]["mean"] < 0.01
    assert found["kl"]["mean"] < found["kl"]["p999"]
    assert 8.5 <= found["bits_per_weight"] < 8.6
    assert found["weight_bytes"] < found["stored_bytes"]
    assert found["reference"]["scored_tokens"] == found["reference"]["windows"] * 255
    assert json.loads((tiny.folder / "q8.json").read_text()) == found


def test_a_point_measured_since_the_compiler_changed_is_not_measured_again(tiny: Model) -> None:
    tiny.folder.mkdir(parents=True)
    (tiny.folder / "q8.json").write_text('{"kept": true}')
    assert scored(tiny, OURS["q8"], llama=None, threads=1) == {"kept": True}


def test_a_file_of_llama_cpps_needs_its_quantizer(tiny: Model) -> None:
    with pytest.raises(SystemExit, match="Q4_K_M needs --llama VENV"):
        file(tiny, PEERS["Q4_K_M"], llama=None)


@pytest.mark.parametrize("key", MODELS)
def test_texts_have_ten_thousand_tokens_and_more(key: str) -> None:
    assert len(MODELS[key].text()) > 10_000 * 3


def test_the_demo_model_as_gguf_has_the_same_weights(tmp_path: Path) -> None:
    path = tmp_path / "demo.gguf"
    write_gguf(ROOT / "examples/demo-model", path)
    with open_checkpoint(ROOT / "examples/demo-model") as own, open_checkpoint(path) as other:
        assert sorted(own.weights.names()) == sorted(other.weights.names())
        for name in own.weights.names():
            assert np.array_equal(own.weights.read(name), other.weights.read(name)), name
        assert own.model.eos == other.model.eos or other.model.eos[0] in own.model.eos


def test_a_rotary_embedding_that_is_scaled_is_not_written(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, SHAPES["tiny"])
    config = json.loads((tmp_path / "config.json").read_text())
    scaled = {**config, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    (tmp_path / "config.json").write_text(json.dumps(scaled))
    with pytest.raises(ValueError, match="kind linear is not written"):
        write_gguf(tmp_path, tmp_path / "scaled.gguf")


def test_a_peer_runs_in_its_own_environment(tmp_path: Path) -> None:
    command = peer_command(tmp_path / "m.gguf", tmp_path / "venv", 2, "--clients")
    assert command.python == tmp_path / "venv/bin/python"
    assert command.args == (str(tmp_path / "m.gguf"), "--threads", "2", "--clients")


def test_there_are_twenty_questions() -> None:
    lines = QUESTIONS.read_text("utf-8").splitlines()
    assert len(set(lines)) == len(lines) == 20
    assert all(lines)


def answer(text: str, *ids: int) -> Answer:
    return Answer(text, ids, ended=True)


@pytest.mark.parametrize(
    ("mine", "theirs", "count"), [((1, 2), (1, 2), 2), ((1, 2), (1, 3), 1), ((1,), (1, 3), 1)]
)
def test_answers_are_alike_up_to_where_they_part(
    mine: tuple[int, ...], theirs: tuple[int, ...], count: int
) -> None:
    assert alike(answer("", *mine), answer("", *theirs)) == count


def test_what_is_the_same_is_told_once_and_a_loop_is_named() -> None:
    loop = answer("the capital of France " * 4, 1, 2)
    shown = "\n".join(told(["Same?", "Other?"], [answer("Yes.", 7), loop], [answer("Yes.", 7)] * 2))
    assert shown.count("Yes.") == 2
    assert "1. Same?  [the same]" in shown
    assert "2. Other?  [alike for 0 tokens, loops]" in shown
    assert "1 of 2 answers are the same; 1 of the model's loop, 0 of the reference's" in shown
