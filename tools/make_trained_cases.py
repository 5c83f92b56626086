"""Writes tokenizers of every kind, and what the tokenizers package makes of texts with them.

    python -m tools.make_trained_cases                              # tests/text/trained.json
    python -m tools.make_trained_cases build/trained.json --count 400 --seed 7

The tab's tokenizer is held to it: `TRAINED=../build/trained.json npx vitest run
tests/engine/trained.test.ts` in web/.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import Tokenizer

from tests.runtime.text.corpus import TEXTS
from tests.runtime.text.hashing import packed
from tests.runtime.text.trained import KINDS, mixed, trained

STORED = Path(__file__).parents[1] / "tests" / "text" / "trained.json"
COUNT, SEED, TOKENS, MIXED = 12, 6, 120, 60
LONG = 2000
"""Characters of a text that is told apart from others without being kept."""


def cases(count: int, seed: int, tokens: int) -> dict[str, Any]:
    """Texts, and so many tokenizers with the hashes of what they make of each."""
    rng = Random(seed)
    texts = [*(text for text in TEXTS if len(text) < LONG), *(mixed(rng) for _ in range(MIXED))]
    made = [trained(rng, KINDS[i % len(KINDS)], tokens) for i in range(count)]
    return {"texts": texts, "tokenizers": [outcome(each, texts) for each in made]}


def outcome(tokenizer: Tokenizer, texts: list[str]) -> dict[str, Any]:
    """A tokenizer and what the package makes of texts with it, a hash each, one after the other."""
    ids = [tokenizer.encode(text).ids for text in texts]
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    whole = [tokenizer.decode(each, skip_special_tokens=False) for each in ids]
    skipped = [tokenizer.decode(each) for each in ids]
    return {
        "tokenizer": json.loads(tokenizer.to_str()),
        "encoded": "".join(map(packed, ids)),
        "plain": "".join(map(packed, plain)),
        "decoded": "".join(packed(text.encode()) for text in whole),
        "streamed": "".join(packed(text.encode()) for text in skipped),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", type=Path, default=STORED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    args = parser.parse_args()
    found = cases(args.count, args.seed, args.tokens)
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
    args.path.write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
