"""Generation with drafts: the same tokens as without, in fewer steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import edgewise.settings
from edgewise import Engine
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.engine.speculate.draft import DraftModel
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from tests.runtime.engine.speculate.conftest import CASE

PROMPTS = [[*range(10, 30)], [5, 6, 7, 8] * 9, [300, 2, 2, 2], [*range(40, 120)]]
WAYS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0.7, "top_p": 0.9, "seed": 3},
    {"temperature": 1.3, "top_k": 12, "logit_bias": {9: 3.0}, "seed": (1 << 64) - 5},
    {"temperature": 0, "repetition_penalty": 1.4},
]
CHEAP = partial(DraftModel, cost=0.1)
"""These models are all of one size: as if the one that guesses were much smaller."""


@pytest.fixture(scope="module", params=["lookup", "same", "smaller"])
def drafting(request: pytest.FixtureRequest, target: Bundle, smaller: Bundle) -> Iterator[Engine]:
    """An engine whose tokens are guessed from the text, by its own model, by another one."""
    ways: dict[str, str | Path] = {
        "lookup": "lookup",
        "same": target.path,
        "smaller": smaller.path,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edgewise.settings, "DraftModel", CHEAP)
        engine = Engine(target.path, draft=ways[request.param])
    with engine:
        yield engine


def drafted(engine: Engine) -> tuple[int, int]:
    """Tokens verified so far, and those of them that were right."""
    counts = engine.metrics()
    return (
        counts["spec_decode_num_draft_tokens_total"],
        counts["spec_decode_num_accepted_tokens_total"],
    )


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_drafts_change_no_token(engine: Engine, drafting: Engine, options: dict[str, Any]) -> None:
    for prompt in PROMPTS:
        plain = engine.generate(prompt, max_tokens=70, ignore_eos=True, **options)
        guessed = drafting.generate(prompt, max_tokens=70, ignore_eos=True, **options)
        assert guessed.token_ids == plain.token_ids
        assert guessed.finish_reason == plain.finish_reason


@pytest.mark.parametrize("count", [2, 3, 8])
def test_nor_with_several_at_once(engine: Engine, drafting: Engine, count: int) -> None:
    options: dict[str, Any] = {"temperature": 0.9, "seed": 7, "max_tokens": 40}
    prompts = (PROMPTS * 2)[:count]
    plain = [c.token_ids for c in engine.generate(prompts, **options)]
    assert [c.token_ids for c in drafting.generate(prompts, **options)] == plain


def test_nor_for_the_choices_of_one_request(engine: Engine, drafting: Engine) -> None:
    options: dict[str, Any] = {"temperature": 1.0, "seed": 11, "max_tokens": 30, "n": 3}
    plain = [choice.token_ids for choice in engine.choices(PROMPTS[0], **options)]
    assert len(set(plain)) == 3
    assert [choice.token_ids for choice in drafting.choices(PROMPTS[0], **options)] == plain


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 8, 9])
def test_a_draft_does_not_go_past_the_last_token_allowed(
    engine: Engine, drafting: Engine, max_tokens: int
) -> None:
    for prompt in PROMPTS:
        options: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "max_tokens": max_tokens}
        expected = engine.generate(prompt, **options).token_ids
        assert drafting.generate(prompt, **options).token_ids == expected


def test_an_end_token_or_stop_string_in_a_draft_ends_the_text(
    engine: Engine, drafting: Engine
) -> None:
    options: dict[str, Any] = {"temperature": 0, "max_tokens": 60}
    text = engine.generate(PROMPTS[1], **options).text
    stop = text[len(text) // 2 :][:3]
    ends: list[dict[str, Any]] = [{"stop": stop}, {"logit_bias": {1: 3.0}}]
    for more in ends:
        plain = engine.generate(PROMPTS[1], **options, **more)
        guessed = drafting.generate(PROMPTS[1], **options, **more)
        assert (guessed.text, guessed.token_ids) == (plain.text, plain.token_ids)
        assert guessed.finish_reason == plain.finish_reason


@pytest.mark.parametrize("options", WAYS[:3], ids=str)
def test_its_own_model_is_always_right(
    target: Bundle, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edgewise.settings, "DraftModel", CHEAP)
    with Engine(target.path, draft=target.path) as drafting:
        for prompt in PROMPTS:
            drafting.generate(prompt, max_tokens=60, ignore_eos=True, **options)
        proposed, accepted = drafted(drafting)
    assert proposed == accepted > 150


def test_a_loop_is_guessed_from_the_text(target: Bundle) -> None:
    """A bias that leaves no choice: 50 tokens, of which the text itself gives nearly all."""
    with Engine(target.path, draft="lookup") as drafting:
        only: dict[str, Any] = {"logit_bias": {9: 1e4}, "ignore_eos": True}
        drafting.generate(PROMPTS[0], max_tokens=50, temperature=0, **only)
        proposed, accepted = drafted(drafting)
    assert proposed == accepted > 35


def test_a_model_as_large_as_the_target_is_not_asked(target: Bundle) -> None:
    """Its drafts would be right, and cost more than the steps they save."""
    with Engine(target.path, draft=target.path) as drafting:
        drafting.generate(PROMPTS[0], max_tokens=60, ignore_eos=True, temperature=0)
        assert drafted(drafting) == (0, 0)


@pytest.mark.landing
def test_drafts_change_no_token_on_a_gpu(bundles: BundleFactory) -> None:
    """Of a program whose decode gives the bits of its prefill."""
    path, device = bundles(CASE, targets=("cpu", "webgpu")), WgpuDevice()
    options: dict[str, Any] = {"program": "webgpu-f32-serial", "device": device}
    sampling: dict[str, Any] = {"temperature": 0.8, "seed": 5, "ignore_eos": True, "max_tokens": 24}
    with Engine(path, **options) as engine, Engine(path, draft="lookup", **options) as drafting:
        expected = engine.generate(PROMPTS[1], **sampling).token_ids
        assert drafting.generate(PROMPTS[1], **sampling).token_ids == expected
        assert drafted(drafting)[0] > 0
