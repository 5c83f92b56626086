"""Writes ``goldens.json``: token ids of the real model's tokenizer as llama.cpp has them.

Run from the repository root where llama-cpp-python can be imported:

    python -m tests.real.make_goldens

Of each text of the corpus, and of fuzzed strings that are made again from their numbers, only a
hash of the ids is kept. transformers converts this file's tokenizer too, but forgets that digits
are split one by one, so it is no reference here.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.runtime.text.corpus import TEXTS, fuzzed
from tests.runtime.text.hashing import packed
from tools.smollm2 import smollm2

GOLDENS = Path(__file__).with_name("goldens.json")
FUZZED = 2000


def texts() -> list[str]:
    """What the ids are of."""
    return [*TEXTS, *(fuzzed(index) for index in range(FUZZED))]


def main() -> None:
    """Write the file."""
    import llama_cpp

    model = llama_cpp.Llama(model_path=str(smollm2()), vocab_only=True, verbose=False)
    ids = [model.tokenize(text.encode(), add_bos=True, special=True) for text in texts()]
    golden = {"llama_cpp": llama_cpp.__version__, "ids": "".join(map(packed, ids))}
    GOLDENS.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
