"""Time to compile a grammar and to make a mask, over a vocabulary of 150,000 tokens.

    python bench/matcher.py [--rounds N]

The grammar is of an object of 20 properties: texts, bounded ones, numbers, choices, lists. One of
its texts is followed in tokens of different lengths, by a matcher that has kept nothing and then by
the same one. Times are of the thread, so that what else the machine does is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import thread_time

# As a script, this file sees its own folder, not the root that the tests are named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.vocabulary import Vocabulary
from tests.runtime.grammar.large_schema import large_vocabulary, schema_grammar, schema_text


def seconds(work: Callable[[], object]) -> float:
    start = thread_time()
    work()
    return thread_time() - start


def pieces(vocabulary: Vocabulary, text: bytes) -> list[bytes]:
    """A text in tokens, of which the longest have 2, 6 or 24 bytes."""
    known = {vocabulary.bytes_of(token) for token in range(vocabulary.size)}
    random, found, at = Random(1), [], 0
    while at < len(text):
        longest = random.choice([2, 6, 24])
        part = next(text[at : at + n] for n in range(longest, 0, -1) if text[at : at + n] in known)
        found.append(part)
        at += len(part)
    return found


def followed(matcher: Matcher, parts: Sequence[bytes]) -> tuple[list[float], list[float]]:
    """Seconds of each mask, and of each step to the next state."""
    masks: list[float] = []
    steps: list[float] = []
    state = matcher.start
    for part in parts:
        masks.append(seconds(partial(matcher.mask, state)))
        start = thread_time()
        led = matcher.advance_bytes(state, part)
        steps.append(thread_time() - start)
        if led is None:
            raise ValueError(f"{part!r} may not come")
        state = led
    return masks, steps


def row(name: str, times: Sequence[float]) -> str:
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"{name:28}{median(times) * 1e6:12.1f}{p99 * 1e6:12.1f}{ordered[-1] * 1e6:12.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    vocabulary = large_vocabulary()
    tokens = [vocabulary.bytes_of(token) for token in range(vocabulary.size)]
    parts = pieces(vocabulary, schema_text().encode())
    times: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        times.setdefault("vocabulary", []).append(seconds(partial(Vocabulary, tokens)))
        grammar = schema_grammar()
        times.setdefault("compile", []).append(seconds(partial(Matcher, grammar, vocabulary)))
        matcher = Matcher(grammar, vocabulary)
        for kind in ("cold", "kept"):
            masks, steps = followed(matcher, parts)
            times.setdefault(f"mask, {kind}", []).extend(masks)
            times.setdefault(f"step, {kind}", []).extend(steps)
    print(f"{len(parts)} states; microseconds\n{'':28}{'median':>12}{'p99':>12}{'most':>12}")
    for name, each in times.items():
        print(row(name, each))


if __name__ == "__main__":
    main()
