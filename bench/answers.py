"""Greedy answers to plain questions, a model's beside a reference's, for people to read.

    python bench/answers.py A B [--questions FILE] [--max-tokens N]

A is the model and B the reference: bundles, or checkpoints and GGUF files, which are compiled to
float32. Says of each answer for how many tokens it is the reference's, and whether it loops.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# As a script, this file sees its own folder, not the root that the tools are named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgewise import Engine
from edgewise.cache import find_bundle
from edgewise.scorers import CHECKPOINT_QUANT
from tools.demo_eval import looping

QUESTIONS = Path(__file__).with_name("questions.txt")


@dataclass(frozen=True)
class Answer:
    """A greedy answer: its text, its tokens, and whether it ended by itself."""

    text: str
    ids: tuple[int, ...]
    ended: bool


def answers(path: Path, questions: Sequence[str], most: int) -> list[Answer]:
    """A model's answers, each in a conversation of its own."""
    with Engine(find_bundle(path, quant=CHECKPOINT_QUANT)) as engine:
        asked = [
            engine.submit_chat(
                [{"role": "user", "content": question}], max_tokens=most, temperature=0
            )
            for question in questions
        ]
        done = [generation.result() for generation in asked]
    return [Answer(d.text.strip(), tuple(d.token_ids), d.finish_reason != "length") for d in done]


def alike(one: Answer, other: Answer) -> int:
    """How many tokens both begin with."""
    pairs = zip(one.ids, other.ids, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one.ids), len(other.ids)))


def told(
    questions: Sequence[str], model: Sequence[Answer], exact: Sequence[Answer]
) -> Iterator[str]:
    """What is printed."""
    triples = zip(questions, model, exact, strict=True)
    for number, (question, mine, theirs) in enumerate(triples, 1):
        same = "the same" if mine.ids == theirs.ids else f"alike for {alike(mine, theirs)} tokens"
        yield f"{number}. {question}  [{same}{', loops' if looping(mine.text) else ''}]"
        yield _indented("reference", theirs)
        if mine.ids != theirs.ids:
            yield _indented("model", mine)
    equal = sum(mine.ids == theirs.ids for mine, theirs in zip(model, exact, strict=True))
    loops = [sum(looping(answer.text) for answer in found) for found in (model, exact)]
    yield (
        f"{equal} of {len(questions)} answers are the same; "
        f"{loops[0]} of the model's loop, {loops[1]} of the reference's"
    )


def _indented(who: str, answer: Answer) -> str:
    text = answer.text.replace("\n", "\n" + " " * 16)
    return f"    {who:10}: {text}{'' if answer.ended else ' ...'}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a", metavar="A", type=Path)
    parser.add_argument("b", metavar="B", type=Path)
    parser.add_argument("--questions", type=Path, default=QUESTIONS, help="one a line")
    parser.add_argument("--max-tokens", type=int, default=80)
    args = parser.parse_args()
    questions = args.questions.read_text("utf-8").splitlines()
    found = [answers(path, questions, args.max_tokens) for path in (args.a, args.b)]
    for line in told(questions, *found):
        print(line)


if __name__ == "__main__":
    main()
