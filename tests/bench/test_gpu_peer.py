"""The PyTorch peer of the GPU bench computes one model, whichever way its tokens come."""

from __future__ import annotations

from importlib import import_module

import pytest

from checkpoint import SHAPES
from gpu import peer

pytestmark = pytest.mark.full


def test_tokens_one_by_one_are_the_prompts_at_once() -> None:
    torch = import_module("torch")
    torch.manual_seed(7)
    decoder = peer.Decoder(SHAPES["tiny"], "cpu", batch=2, length=24)
    tokens = torch.randint(0, SHAPES["tiny"].vocab, (2, 24))
    with torch.inference_mode():
        whole = [decoder.step(tokens[:, : n + 1], 0) for n in range(24)]
        single = [decoder.step(tokens[:, n : n + 1], n) for n in range(24)]
    assert torch.equal(torch.stack(whole), torch.stack(single))


def test_shapes_are_found_by_the_names_of_what_was_packed() -> None:
    found = peer.shapes(["demo", "qwen3-0.6b-q4", "qwen3-0.6b-f16", "llama-3.2-1b-q4"])
    assert [shape.name for shape in found] == ["qwen3-0.6b", "llama-3.2-1b"]
