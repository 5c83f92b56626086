"""Train the demo model from scratch on generated dialogues, and export it.

The text comes from the templates of `demo_corpus`; nothing is downloaded. The run can be stopped
with Ctrl-C and started again: it goes on from the checkpoint in --work.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import torch

# As a script, this file sees its own folder, not the root that its package is named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.demo_corpus import TURN_END, Dialogue, Turn
from tools.demo_corpus.curve import loss_svg
from tools.demo_corpus.export import export
from tools.demo_corpus.tokenizer import token_id, train_tokenizer
from tools.demo_corpus.training import Recipe, Run, resume, save, start, train_step

TOKENIZER_DIALOGUES = 30_000
SAMPLE_PROMPTS = (
    "Hello!",
    "What is edgewise?",
    "Tell me a story about a brave fox named Pip.",
    "What is 7 + 5?",
    "My name is Zorblat. What is my name?",
    "Can a bundle run without a graphics card?",
)


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
    add("--curve", type=Path, help="also draw the loss of all steps here, as SVG")
    add("--steps", type=int, default=2500, help="steps to train (default: %(default)s)")
    add("--minutes", type=float, help="end after so long, even if fewer steps were taken")
    add("--compile", action="store_true", help="compile the model with torch.compile first")
    add("--rows", type=int, default=4, help="short rows in a batch (default: %(default)s)")
    add("--columns", type=int, default=512, help="tokens in a short row (default: %(default)s)")
    add("--rate", type=float, default=3e-3, help="peak rate of Muon (default: %(default)s)")
    add("--embedding-rate", type=float, default=3e-3, help="of AdamW (default: %(default)s)")
    add(
        "--prompt-weight",
        type=float,
        default=0.1,
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
    if args.curve:
        args.curve.write_text(loss_svg(run.losses))
    print(f"wrote {args.out} after {run.step} steps and {run.seconds / 60:.1f} minutes")


if __name__ == "__main__":
    main()
