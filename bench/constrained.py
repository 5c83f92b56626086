"""What answers under a schema cost: beside free ones of the same batch size, and alone.

A batch of answers under a schema takes turns with the same batch free, in one process. Apart from
that: the time to make the vocabulary, to lower each schema and make its matcher, and until the mask
of each token of random texts is there, of all, of those that had to be made, and of those kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import median, quantiles
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np

from edgewise import Engine, Generation
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.schema import lower_schema
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.text.token_bytes import token_bytes
from streams import Arrival, Stream

BATCH = 4
LETTERS = range(26, 0, -1)
SIGNS = "\"{}[],:.\\/ ()-_=<>+*;'\n\t0"
SCRIPTS = ((0x400, 0x45F), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3))
WORDS = 150_000
"""Of a vocabulary of 151,936 tokens. The others are bytes and pairs of them, as many of which as in
vocabularies of models are a part of a character."""
Figures = dict[str, float]


def _object(**properties: Any) -> dict[str, Any]:
    shape = {"type": "object", "properties": properties, "required": list(properties)}
    return {**shape, "additionalProperties": False}


_PERSON = _object(
    name={"type": "string", "maxLength": 30},
    age={"type": "integer", "minimum": 0, "maximum": 120},
    email={"type": "string", "pattern": "^[a-z]{1,12}@[a-z]{1,12}\\.(com|org)$"},
    tags={"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 4},
)
ENDLESS: dict[str, Any] = {"type": "array", "items": _PERSON, "minItems": 1000}
BATCHES: dict[str, dict[str, Any]] = {
    "objects": ENDLESS,
    "text": {"type": "string", "minLength": 100_000},
}
"""Schemas of batches, which no answer comes to the end of: in one much of the text is forced, and
comes many tokens at once; in the other each token is drawn."""
SCHEMAS: Mapping[str, dict[str, Any]] = {
    "person": _PERSON,
    "people": ENDLESS,
    "numbers": {"type": "array", "items": {"type": "number", "minimum": -5, "maximum": 1e6}},
    "tree": {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": _object(
                name={"type": "string"}, below={"type": "array", "items": {"$ref": "#/$defs/tree"}}
            )
        },
    },
    "any object": {"type": "object"},
}


def large_words(count: int) -> list[str]:
    """Texts as long as tokens of large vocabularies are, on which masks depend: words with a space
    before them or a capital, numbers, signs, and characters of other scripts."""
    random = Random(0)
    words: dict[str, None] = {}
    while len(words) < count:
        kind, length = random.random(), random.randint(4, 10)
        if kind < 0.75:
            letters = random.choices("etaoinshrdlucmfwypvbgkjqxz", LETTERS, k=length)
            word = "".join(letters)
            words[random.choice(("", " ", " ", "_")) + random.choice((word, word.title()))] = None
        elif kind < 0.8:
            words[str(random.randrange(10_000, 1_000_000))] = None
        elif kind < 0.84:
            words["".join(random.choices(SIGNS, k=length))] = None
        else:
            first, last = random.choice(SCRIPTS)
            some = (chr(random.randint(first, last)) for _ in range(random.randint(2, 4)))
            words["".join(some)] = None
    return list(words)


def constrained(
    bundle: Path, *, threads: int | None, tokens: int, rounds: int, masks: int
) -> Figures:
    """Measure a bundle.

    Args:
        tokens: of each answer of the batch.
        rounds: of the batch free and under a schema.
        masks: states of each schema whose mask is made.
    """
    with Engine(bundle, threads=threads) as engine:
        return {**_speeds(engine, tokens, rounds), **_times(engine, masks)}


def _speeds(engine: Engine, tokens: int, rounds: int) -> Figures:
    """Tokens a second of a batch, free and under schemas, and what these come to beside it."""
    asked: dict[str, dict[str, Any] | None] = {"free": None, **BATCHES}
    speeds: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(-1, rounds):
        for name, schema in list(asked.items())[:: 1 if turn % 2 == 0 else -1]:
            speed = _speed(engine, schema, tokens, seed=turn + 1)
            speeds[name] += [speed] if turn >= 0 else []  # the first round warms up
    figures = {f"{name}_tok_s": median(found) for name, found in speeds.items()}
    for name in BATCHES:
        ratios = [mine / free for mine, free in zip(speeds[name], speeds["free"], strict=True)]
        figures[f"{name}_over_free"] = median(ratios)
    return figures


def _speed(engine: Engine, schema: dict[str, Any] | None, tokens: int, *, seed: int) -> float:
    """Tokens a second of a batch, from when all of it decodes to when the first of it has ended."""
    wanted = schema and {"type": "json_schema", "json_schema": {"schema": schema}}
    started = perf_counter()
    running = [
        engine.submit(
            "Once upon a time",
            response_format=wanted,
            max_tokens=tokens,
            ignore_eos=True,
            temperature=1.0,
            seed=BATCH * seed + row,
        )
        for row in range(BATCH)
    ]
    streams = [Stream(started) for _ in running]
    readers = [Thread(target=_read, args=pair) for pair in zip(running, streams, strict=True)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    least = min(stream.tokens for stream in streams)
    if least < tokens:
        raise SystemExit(f"an answer ended after {least} tokens of {tokens}")
    begun, ended = max(s.first for s in streams), min(s.last for s in streams)
    if begun >= ended:  # a tiny model's first answer may end before its last one begins
        begun = started
    drawn = sum(a.tokens for s in streams for a in s.arrivals if begun < a.at <= ended)
    return drawn / (ended - begun)


def _read(generation: Generation, stream: Stream) -> None:
    for piece in generation:
        if piece.token_ids:
            stream.arrivals.append(Arrival(perf_counter(), len(piece.token_ids)))


def _times(engine: Engine, masks: int) -> Figures:
    """Times to make a vocabulary, matchers and masks."""
    started = perf_counter()
    vocabulary = Vocabulary(token_bytes(engine.tokenizer, engine.model.vocab))
    vocabulary_s = perf_counter() - started
    compiled, made, kept = list[float](), list[float](), list[float]()
    for schema in SCHEMAS.values():
        started = perf_counter()
        matcher = Matcher(lower_schema(schema), vocabulary)
        compiled.append(perf_counter() - started)
        for new, seconds in _masks(matcher, masks):
            (made if new else kept).append(seconds)
    return {
        "vocabulary_s": vocabulary_s,
        **_spread("compile_ms", compiled, 1e3),
        **_spread("mask_ms", [*made, *kept], 1e3),
        **_spread("made_mask_ms", made, 1e3),
        **_spread("kept_mask_us", kept, 1e6),
    }


def _masks(matcher: Matcher, count: int) -> Iterator[tuple[bool, float]]:
    """Whether each mask of a random text had to be made, and the seconds until it was there."""
    random, state = Random(0), matcher.start
    made: dict[int, object] = {}
    for _ in range(count):
        started = perf_counter()
        mask = matcher.mask(state)
        seconds = perf_counter() - started
        yield id(mask) not in made, seconds
        made[id(mask)] = mask
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        after = None if len(allowed) == 0 else matcher.advance(state, int(random.choice(allowed)))
        state = matcher.start if after is None else after


def _spread(name: str, seconds: list[float], scale: float) -> Figures:
    ranked = quantiles(seconds, n=100, method="inclusive")
    return {f"{name}_median": median(seconds) * scale, f"{name}_p99": ranked[98] * scale}
