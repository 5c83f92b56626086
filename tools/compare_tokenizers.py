"""Counts the texts to which transformers gives other token ids than edgewise.

    python -m tools.compare_tokenizers FOLDER ... [--count 2000]

Each FOLDER has tokenizer.json and what lies beside it. Texts are those of the tests, and fuzzed
ones, half of which have the tokenizer's own special tokens in them, with white space beside some.
Needs transformers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random

from edgewise_runtime.text import Tokenizer
from tests.runtime.text.corpus import TEXTS, fuzzed

BESIDE = ("", "", " ", "  ", "\n", " \t", "x")
MOST_TOKENS = 60
SHOWN = 80


def texts(count: int, tokens: Sequence[str]) -> list[str]:
    """So many texts, always the same for the same tokens."""
    return [*TEXTS, *(mixed(i, tokens if i % 2 else ()) for i in range(count - len(TEXTS)))]


def mixed(number: int, tokens: Sequence[str]) -> str:
    """A fuzzed text with a few of some tokens put into it."""
    rng, text = Random(number), fuzzed(number)
    for _ in range(rng.randint(1, 4) if tokens else 0):
        at = rng.randint(0, len(text))
        token = rng.choice(BESIDE) + rng.choice(tokens) + rng.choice(BESIDE)
        text = text[:at] + token + text[at:]
    return text


def compare(folder: Path, count: int) -> str:
    """A line about one tokenizer."""
    from transformers import AutoTokenizer

    theirs, ours = AutoTokenizer.from_pretrained(folder), Tokenizer.from_folder(folder)
    added = sorted(token.content for token in theirs.added_tokens_decoder.values())
    asked = texts(count, added[:MOST_TOKENS])
    wrong = [
        text
        for text in asked
        for special in (True, False)
        if theirs(text, add_special_tokens=special).input_ids
        != ours.encode(text, add_special_tokens=special)
    ]
    different = sorted(set(wrong), key=len)
    shortest = f", such as {different[0][:SHOWN]!r}" if different else ""
    kind = type(theirs).__name__
    return f"{folder.name}: {len(different)} of {len(asked)} texts differ ({kind}){shortest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    args = parser.parse_args()
    for folder in args.folders:
        print(compare(folder, args.count), flush=True)


if __name__ == "__main__":
    main()
