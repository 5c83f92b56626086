"""Train the demo model from scratch on generated dialogues, and export it.

The text comes from the templates of `demo_corpus`; nothing is downloaded. The run can be stopped
with Ctrl-C and started again: it goes on from the checkpoint in --work.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaForCausalLM

# As a script, this file sees its own folder, not the root that its package is named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.demo_corpus import TURN_END, Dialogue, Turn
from tools.demo_corpus.export import export, model_config
from tools.demo_corpus.packing import Batch, BatchShape, make_batch
from tools.demo_corpus.tokenizer import token_id, train_tokenizer

TOKENIZER_DIALOGUES = 30_000
WARMUP_STEPS = 60
# Most batches hold short rows, which cost little attention. Every eighth has rows twice as long, so
# that far positions are trained as well.
SHORT_BLOCKS = (1, 4)
LONGER = ((8, 2, (6, 12)),)
SAMPLE_PROMPTS = (
    "Hello!",
    "What is edgewise?",
    "Tell me a story about a brave fox named Pip.",
    "What is 7 + 5?",
    "My name is Zorblat. What is my name?",
    "Can a bundle run without a graphics card?",
)


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


def answer(run: Run, prompt: str, limit: int = 120) -> str:
    """Return the model's most likely answer to one message."""
    text = Dialogue((Turn("user", prompt),)).render() + "<|im_start|>assistant\n"
    ids = torch.tensor([run.tokenizer.encode(text).ids])
    with torch.no_grad():
        out: Any = run.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=limit, do_sample=False
        )
    new = out[0, ids.shape[1] :].tolist()
    ended = new[-1] == token_id(run.tokenizer, TURN_END)
    return str(run.tokenizer.decode(new)) + ("" if ended else " [no end]")


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


def train(run: Run, args: argparse.Namespace, keep: Callable[[], None]) -> bool:
    """Train, reporting and saving on the way; return whether the run came to its end."""
    stop = Event()
    # A step is finished before the run stops: half a step in a checkpoint would be another run.
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    forward = torch.compile(run.model, dynamic=False) if args.compile else run.model
    smooth = 0.0
    first, kept = run.step, time.monotonic()
    recent: deque[float] = deque(maxlen=41)
    while run.done < 1 and not stop.is_set():
        before = time.monotonic()
        loss = train_step(run, forward)
        recent.append(time.monotonic() - before)
        run.seconds += recent[-1]
        smooth = loss if run.step == first + 1 else 0.95 * smooth + 0.05 * loss
        if run.step % 10 == 0 or run.done >= 1:
            # The median: a process that was stopped for a while shows one long step.
            step_time = median(recent)
            left = min(step_time * (run.recipe.steps - run.step), run.limit - run.seconds)
            print(
                f"step {run.step}/{run.recipe.steps}  loss {smooth:.4f}  "
                f"{run.tokens / run.step / step_time:.0f} tokens/s  ETA {left / 60:.1f} min",
                flush=True,
            )
        if time.monotonic() - kept > 60 * args.save_every:
            keep()
            kept = time.monotonic()
        if run.step % args.sample_every == 0:
            for prompt in SAMPLE_PROMPTS:
                print(f"  > {prompt}\n    {answer(run, prompt)}", flush=True)
        run.losses.append(round(loss, 4))
    return run.done >= 1


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", type=Path, default=Path("examples/demo-model"), help="model folder to write")
    add("--work", type=Path, default=Path("build/train_demo"), help="folder of the checkpoint")
    add("--fresh", action="store_true", help="start over, even if there is a checkpoint")
    add("--export-only", action="store_true", help="export the checkpoint as it is; do not train")
    add("--snapshot", type=Path, help="also export here whenever a checkpoint is saved")
    add("--steps", type=int, default=3600, help="steps to train (default: %(default)s)")
    add("--minutes", type=float, help="end after so long, even if fewer steps were taken")
    add("--compile", action="store_true", help="compile the model with torch.compile first")
    add("--rows", type=int, default=4, help="short rows in a batch (default: %(default)s)")
    add("--columns", type=int, default=512, help="tokens in a short row (default: %(default)s)")
    add("--rate", type=float, default=3e-3, help="peak rate of Muon (default: %(default)s)")
    add("--embedding-rate", type=float, default=3e-3, help="of AdamW (default: %(default)s)")
    add(
        "--prompt-weight",
        type=float,
        default=0.2,
        help="how much text that is not the assistant's counts in the loss (default: %(default)s)",
    )
    add("--bfloat16", action="store_true", help="compute in bfloat16 where torch's autocast would")
    add("--seed", type=int, default=7, help="of weights and text (default: %(default)s)")
    add("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    add("--save-every", type=float, default=4, metavar="MINUTES", help="default: %(default)s")
    add("--sample-every", type=int, default=400, metavar="STEPS", help="default: %(default)s")
    return parser.parse_args()


def main() -> None:
    """Train, or go on training, and export."""
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    recipe = Recipe(
        seed=args.seed,
        steps=args.steps,
        rows=args.rows,
        columns=args.columns,
        learning_rate=args.rate,
        embedding_rate=args.embedding_rate,
        prompt_weight=args.prompt_weight,
        bfloat16=args.bfloat16,
    )
    checkpoint = args.work / "checkpoint.pt"
    if checkpoint.exists() and not args.fresh:
        run = resume(recipe, checkpoint)
        print(f"going on from step {run.step} of {checkpoint}", flush=True)
    elif args.export_only:
        raise SystemExit(f"there is no checkpoint at {checkpoint}; train first")
    else:
        run = start(recipe, train_tokenizer(recipe.seed, TOKENIZER_DIALOGUES))

    def keep() -> None:
        save(run, checkpoint)
        if args.snapshot:
            export(run.model, run.tokenizer, args.snapshot)

    if not args.export_only:
        parameters = sum(parameter.numel() for parameter in run.model.parameters())
        run.limit = 60 * args.minutes if args.minutes else float("inf")
        print(f"{parameters:,} parameters, {recipe.steps} steps", flush=True)
        finished = train(run, args, keep)
        keep()
        if not finished:
            raise SystemExit(f"stopped at step {run.step}; run the same command again to go on")
    export(run.model, run.tokenizer, args.out)
    print(f"wrote {args.out} after {run.step} steps and {run.seconds / 60:.1f} minutes")


if __name__ == "__main__":
    main()
