"""Score the demo model on questions and dialogues written by hand.

Runs a checkpoint with transformers in float32, or, with --bundle, a compiled bundle through
`edgewise.Engine`, always with the most likely token.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

# As a script, this file sees its own folder, not the root that its package is named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.demo_corpus import Dialogue, Turn, generate
from tools.demo_corpus.tokenizer import encode
from tools.demo_eval import Case, is_right, load, looping, repeated_share

ANSWER_TOKENS = 200
HELD_OUT_SEED = 1_000_003
HELD_OUT_DIALOGUES = 60


class Model(Protocol):
    """What is evaluated."""

    tokenizer: Tokenizer

    def answer(self, turns: Sequence[Turn]) -> tuple[str, bool]:
        """Return the answer to a conversation, and whether it ended by itself."""
        ...

    def logits(self, ids: list[int]) -> npt.NDArray[np.float32]:
        """Return float32 [tokens, vocabulary]."""
        ...


class Checkpoint:
    """A model folder, run by transformers in float32."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self._torch: Any = torch
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def answer(self, turns: Sequence[Turn]) -> tuple[str, bool]:
        text = Dialogue(tuple(turns)).render() + "<|im_start|>assistant\n"
        ids = self._torch.tensor([self.tokenizer.encode(text).ids])
        out = self._model.generate(
            ids,
            attention_mask=self._torch.ones_like(ids),
            max_new_tokens=ANSWER_TOKENS,
            do_sample=False,
        )
        new = out[0, ids.shape[1] :].tolist()
        return str(self.tokenizer.decode(new)), new[
            -1
        ] in self._model.generation_config.eos_token_id

    def logits(self, ids: list[int]) -> npt.NDArray[np.float32]:
        with self._torch.no_grad():
            out: npt.NDArray[np.float32] = self._model(self._torch.tensor([ids])).logits[0].numpy()
        return out


class Compiled:
    """A bundle, run by edgewise."""

    def __init__(self, folder: Path) -> None:
        from edgewise import Engine

        self._engine = Engine(folder)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def answer(self, turns: Sequence[Turn]) -> tuple[str, bool]:
        messages: Any = [{"role": turn.role, "content": turn.text} for turn in turns]
        done = self._engine.chat(messages, max_tokens=ANSWER_TOKENS, temperature=0)
        return done.text, done.finish_reason != "length"

    def logits(self, ids: list[int]) -> npt.NDArray[np.float32]:
        return self._engine.score(ids)


@dataclass(frozen=True)
class Result:
    """One case as it went: an answer and whether it ended, for each step."""

    case: Case
    answers: tuple[str, ...]
    ended: tuple[bool, ...]

    @property
    def right(self) -> bool:
        return is_right(self.case, list(self.answers))


def run_case(model: Model, case: Case) -> Result:
    """Hold one conversation."""
    turns = [Turn("system", case.system)] if case.system else []
    answers, ended = [], []
    for step in case.steps:
        turns.append(Turn("user", step.user))
        text, whole = model.answer(turns)
        turns.append(Turn("assistant", text))
        answers.append(text)
        ended.append(whole)
    return Result(case, tuple(answers), tuple(ended))


def perplexity(model: Model) -> float:
    """Return the perplexity of the assistant's text in generated dialogues never trained on."""
    total, count = 0.0, 0
    for index in range(HELD_OUT_DIALOGUES):
        ids, is_answer = encode(model.tokenizer, generate(HELD_OUT_SEED, index))
        logits = model.logits(ids).astype(np.float64)
        highest = logits.max(axis=1)
        losses = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        for place in range(1, len(ids)):
            if is_answer[place]:
                total += losses[place - 1] - logits[place - 1, ids[place]]
                count += 1
    return float(np.exp(total / count))


def report(name: str, results: list[Result]) -> None:
    """Print how many are right, by topic."""
    asked = Counter(result.case.topic for result in results)
    right = Counter(result.case.topic for result in results if result.right)
    print(f"{name}: {right.total()} of {len(results)}")
    print("  " + ", ".join(f"{topic} {right[topic]}/{asked[topic]}" for topic in asked))


def show(results: list[Result]) -> None:
    """Print conversations in full."""
    for result in results:
        print(f"\n[{'right' if result.right else 'miss'}: {result.case.topic}]")
        for step, answer in zip(result.case.steps, result.answers, strict=True):
            print(f"  > {step.user}\n    {answer}")


def main() -> None:
    """Evaluate one model and print its scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, nargs="?", default=Path("examples/demo-model"))
    parser.add_argument("--bundle", action="store_true", help="MODEL is a bundle; use edgewise")
    parser.add_argument("--misses", action="store_true", help="print the misses in full")
    parser.add_argument("--all", action="store_true", help="print every conversation in full")
    args = parser.parse_args()
    model: Model = Compiled(args.model) if args.bundle else Checkpoint(args.model)

    results = []
    for name in ("edgewise", "dialogues"):
        part = [run_case(model, case) for case in load(name)]
        report(name, part)
        results += part
    answers = [answer for result in results for answer in result.answers]
    ended = sum(sum(result.ended) for result in results)
    repeated = sum(map(repeated_share, answers)) / len(answers)
    print(f"ended by themselves: {ended} of {len(answers)} answers")
    print(f"repeated runs of four words: {repeated:.2%}; loops: {sum(map(looping, answers))}")
    print(f"perplexity on held-out generated text: {perplexity(model):.3f}")
    if args.misses or args.all:
        show([result for result in results if args.all or not result.right])


if __name__ == "__main__":
    main()
