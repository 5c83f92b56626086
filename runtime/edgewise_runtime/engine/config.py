"""How an engine shares its device among requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.engine.pace import Pace, SharedTime
from edgewise_runtime.engine.runner import Runner
from edgewise_runtime.engine.speculate.base import Drafter
from edgewise_runtime.engine.step import Limits
from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.spill import PageStore
from edgewise_runtime.kv.stored import PageSource


@dataclass(frozen=True)
class EngineOptions:
    """What may be chosen about a `GenerationEngine`.

    Attributes:
        step_tokens: the most tokens a step computes, None for what the program prefills at once.
        max_waiting: requests that may wait.
        share_decoded: let prompts reuse pages that decode has written, also where they are not the
            bits that prefill would write: a conversation's next turn then begins sooner, and its
            text may depend on whether it did. Programs where both agree always do.
        pace: how prefill and decode share the time.
        store: where pages go that have no room on the device; the engine closes it.
        shipped: pages that came with the bundle.
        kept_bytes: bytes of pages on the device that no request needs, kept for the next ones, at
            most; None for as many as there is room for. What is pinned does not count.
        drafter: guesses tokens for the model to verify; the engine closes it.
        metrics: who counts.
    """

    step_tokens: int | None = None
    max_waiting: int = 1024
    share_decoded: bool = False
    pace: Pace = field(default_factory=SharedTime)
    store: PageStore | None = None
    shipped: PageSource | None = None
    kept_bytes: int | None = None
    drafter: Drafter | None = None
    metrics: Metrics = field(default_factory=Metrics)


def step_limits(runner: Runner, options: EngineOptions) -> Limits:
    """What a step may hold; raises InputError ``input.step_tokens`` for too small a budget."""
    tokens = runner.rows if options.step_tokens is None else options.step_tokens
    if tokens < runner.sequences:
        raise InputError(
            f"A step of {tokens} tokens is too small for {runner.sequences} sequences.",
            remedy=f"Choose a budget of at least {runner.sequences}.",
            code="input.step_tokens",
        )
    return Limits(runner.sequences, runner.rows, tokens, options.max_waiting)
