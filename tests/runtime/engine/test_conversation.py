"""A conversation's next turn: only what is new is prefilled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.kv.prefix import common_length
from edgewise_runtime.text import Tokenizer

PAGES = 40
SYSTEM = tuple(range(10, 47))
FIRST = (*SYSTEM, 5, 60, 61, 62, 6)
QUESTION = (5, 70, 71, 6)
REASONING = 21
"""Tokens of an answer that a template leaves out once the turn is over."""


@pytest.fixture
def core(bundles: Callable[..., Path]) -> Iterator[GenerationEngine]:
    opened = Bundle.open(bundles("llama-gqa2-tied-linear"))
    with CpuDevice().load(opened, load_symbols={"pages": PAGES}) as program:
        yield GenerationEngine(
            program, Tokenizer.from_folder(opened.path), pages=PAGES, context=256
        )


def ask(core: GenerationEngine, prompt: tuple[int, ...]) -> Sequence:
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
    sequence = core.sequence(Request(prompt, params))
    for _ in core.run([sequence]):
        pass
    return sequence


def prefilled(core: GenerationEngine) -> int:
    """Prompt tokens computed so far."""
    count = core.metrics.snapshot()["prefill_tokens_total"]
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("left_out", [0, REASONING], ids=["kept", "reasoning dropped"])
def test_the_next_turn_prefills_only_what_is_new(core: GenerationEngine, left_out: int) -> None:
    """All that both texts begin with is found, to the token: full pages shared, the last copied."""
    answer = tuple(ask(core, FIRST).tokens)
    said = (*FIRST, *answer)
    following = (*FIRST, *answer[left_out:], *QUESTION)
    before = prefilled(core)
    second = ask(core, following)
    # The last token of an answer was drawn and never read.
    same = min(common_length(said, following), len(said) - 1)
    assert same >= len(FIRST)
    assert second.cached_tokens == same
    assert prefilled(core) - before == len(following) - same


def test_a_turn_that_was_found_is_answered_like_one_that_was_not(core: GenerationEngine) -> None:
    answer = tuple(ask(core, FIRST).tokens)
    following = (*FIRST, *answer[REASONING:], *QUESTION)
    warm = ask(core, following)
    core.forget()
    cold = ask(core, following)
    assert (warm.cached_tokens > 0, cold.cached_tokens) == (True, 0)
    assert warm.tokens == cold.tokens


def test_an_edited_turn_begins_where_it_differs(core: GenerationEngine) -> None:
    ask(core, FIRST)
    edited = (*FIRST[:-2], 99, 6)
    assert ask(core, edited).cached_tokens == len(FIRST) - 2
