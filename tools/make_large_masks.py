"""Writes tests/grammar/large-masks.json: masks over 150,000 tokens, for both languages to check.

    python -m tools.make_large_masks

The tokens are those of tests/runtime/grammar/large_vocabulary.py. The file holds a line a grammar,
which is a case of masks.json or of schemas.json by its name:

    file, what   where it is, and its name
    steps        states along one text, the first of them the start, each with
        bytes    what leads there from the state before, in hexadecimal
        count    how many tokens may come
        mask     eight digits of the sha256 of the mask's words as bytes, little-endian
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.masks import Mask
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.schema import lower_schema
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar
from tests.runtime.grammar.large_vocabulary import large_tokens
from tools.make_pattern_cases import CASES

PATH = CASES / "large-masks.json"
STEPS = 6
WRITTEN = 40
"""Of the grammars of masks.json so many; the others are small ones at random."""

Case = dict[str, Any]


def grammars() -> Iterator[tuple[str, str, Grammar]]:
    """Files, names and grammars."""
    masks = json.loads((CASES / "masks.json").read_text("utf-8"))
    for case in masks["cases"][:WRITTEN]:
        yield "masks.json", case["what"], lower_grammar(case["text"])
    for case in json.loads((CASES / "schemas.json").read_text("utf-8")):
        try:
            grammar = lower_schema(case["schema"], prefix=case.get("prefix", ""))
        except EdgewiseError:
            continue
        yield "schemas.json", case["what"], grammar


def tokens_of(mask: Mask) -> list[int]:
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()


def step(data: bytes, mask: Mask) -> Case:
    digest = hashlib.sha256(mask.astype("<u4").tobytes()).hexdigest()
    return {"bytes": data.hex(), "count": len(tokens_of(mask)), "mask": digest[:8]}


def steps(matcher: Matcher, vocabulary: Vocabulary, random: Random) -> Iterator[Case]:
    state: int | None = matcher.start
    data = b""
    for _ in range(STEPS):
        if state is None:
            raise ValueError(f"{data!r} may not come")
        mask = matcher.mask(state)
        yield step(data, mask)
        allowed = tokens_of(mask)
        if not allowed:
            return
        data = vocabulary.bytes_of(random.choice(allowed)) or b""
        state = matcher.advance_bytes(state, data)


def written(every: int = 1) -> list[str]:
    """The file's lines, of one in `every` grammars."""
    vocabulary = Vocabulary(large_tokens())
    lines = []
    for i, (file, what, grammar) in enumerate(grammars()):
        if i % every == 0:
            found = [*steps(Matcher(grammar, vocabulary), vocabulary, Random(i))]
            case = {"file": file, "what": what, "steps": found}
            lines.append(json.dumps(case, separators=(",", ":"), ensure_ascii=False))
    return lines


def main() -> None:
    PATH.write_text("[\n" + ",\n".join(written()) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
