"""A training run: its recipe, its steps, and its checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaForCausalLM

from .export import model_config
from .packing import Batch, BatchShape, make_batch

WARMUP_STEPS = 60
# Most batches hold short rows, which cost little attention. Every eighth has rows twice as long, so
# that far positions are trained as well.
SHORT_BLOCKS = (1, 4)
LONGER = ((8, 2, (6, 12)),)


@dataclass(frozen=True)
class Recipe:
    """What decides the weights; a run goes on with the recipe it began with."""

    seed: int
    steps: int
    rows: int
    columns: int
    learning_rate: float
    embedding_rate: float
    prompt_weight: float
    bfloat16: bool


@dataclass
class Run:
    """A training run under way."""

    recipe: Recipe
    tokenizer: Tokenizer
    model: LlamaForCausalLM
    optimizers: list[torch.optim.Optimizer]
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    limit: float = float("inf")

    @property
    def done(self) -> float:
        """The share of the run that is over: of its steps, or of its time if that is more."""
        return max(self.step / self.recipe.steps, self.seconds / self.limit)


def start(recipe: Recipe, tokenizer: Tokenizer) -> Run:
    """Return a run at step 0."""
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(model_config())
    matrices: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name
        (matrices if is_matrix else rest).append(parameter)
    # Muon learns more from each token than AdamW does, and tokens are what a small machine lacks.
    muon = torch.optim.Muon(
        matrices,
        lr=recipe.learning_rate,
        weight_decay=0.05,
        momentum=0.95,
        adjust_lr_fn="match_rms_adamw",
    )
    adam = torch.optim.AdamW(rest, lr=recipe.embedding_rate, betas=(0.9, 0.98), weight_decay=0.0)
    for optimizer in (muon, adam):
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return Run(recipe, tokenizer, model, [muon, adam])


def batch_for(run: Run) -> Batch:
    """Return the batch of the run's current step."""
    recipe = run.recipe
    shape = BatchShape(recipe.rows, recipe.columns, SHORT_BLOCKS)
    for every, times, blocks in LONGER:
        if run.step % every == every - 1:
            shape = BatchShape(recipe.rows // times, recipe.columns * times, blocks)
            break
    # The tokenizer was trained on the dialogues of the seed itself; these are other ones.
    return make_batch(run.tokenizer, recipe.seed + 1, run.step, shape, recipe.prompt_weight)


def learning_rate_factor(step: int, done: float) -> float:
    """Rise over the first steps, hold, and fall straight to zero over the last 60 percent."""
    return max(0.0, min((step + 1) / WARMUP_STEPS, 1.0, (1 - done) / 0.6))


def train_step(run: Run, forward: Callable[..., Any]) -> float:
    """Take one step; return the loss on the assistant's text, in nats per token."""
    batch = batch_for(run)
    factor = learning_rate_factor(run.step, run.done)
    for optimizer in run.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor
    precision = (
        torch.autocast("cpu", dtype=torch.bfloat16) if run.recipe.bfloat16 else nullcontext()
    )
    with precision:
        logits = forward(
            input_ids=batch.ids,
            position_ids=batch.positions,
            attention_mask=batch.mask,
            use_cache=False,
        ).logits
    losses = functional.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), batch.ids[:, 1:].flatten(), reduction="none"
    )
    weights = batch.weights[:, :-1].flatten()
    ((losses * weights).sum() / weights.sum()).backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    for optimizer in run.optimizers:
        optimizer.step()
        optimizer.zero_grad()
    run.step += 1
    run.tokens += int((batch.weights > 0).sum())
    return float(losses.detach()[batch.answers[:, :-1].flatten()].mean())


def save(run: Run, path: Path) -> None:
    """Write a checkpoint, under a temporary name first."""
    state = {
        "recipe": vars(run.recipe),
        "tokenizer": run.tokenizer.to_str(),
        "model": run.model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in run.optimizers],
        "step": run.step,
        "tokens": run.tokens,
        "seconds": run.seconds,
        "losses": run.losses,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    torch.save(state, new)
    os.replace(new, path)


def resume(recipe: Recipe, path: Path) -> Run:
    """Return the run that `path` holds."""
    state = torch.load(path, weights_only=True)
    # Only the length may change: the learning rate then falls to zero sooner or later.
    if {**state["recipe"], "steps": recipe.steps} != vars(recipe):
        raise SystemExit(
            f"{path} was written by another recipe: {state['recipe']}. "
            "Give the same options to go on with it, or --fresh to start over."
        )
    run = start(recipe, Tokenizer.from_str(state["tokenizer"]))
    run.model.load_state_dict(state["model"])
    for optimizer, saved in zip(run.optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    run.step, run.tokens, run.seconds = state["step"], state["tokens"], state["seconds"]
    run.losses = state["losses"]
    return run
