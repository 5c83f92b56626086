"""SentencePiece's BPE (``llama``): tokens with scores, and bytes for what is no token.

Neighbours are joined into the token of the highest score that they make, the leftmost first, until
none is left (llama.cpp, src/llama-vocab.cpp: ``llm_tokenizer_spm``). Where no two tokens have one
score that is BPE, whose merges are every way to cut a token in two, in order of scores. So finds
transformers them, too (convert_slow_tokenizer.py: ``generate_merges``).
"""

from __future__ import annotations

import math
from pathlib import Path

from edgewise_compiler.gguf.pipeline import Pipeline, bpe
from edgewise_compiler.gguf.vocabulary import (
    BYTE,
    CONTROL,
    KEYS,
    UNKNOWN,
    USER_DEFINED,
    Vocabulary,
)
from edgewise_compiler.weights.files import damaged
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten

SPACE = "\u2581"
"""How tokens spell a space."""

NAMED = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""What SentencePiece begins a vocabulary with, where a file names nothing else."""

BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(256))

LONGEST = 256
"""Characters of a token that others are joined into. SentencePiece makes them of 16 at most."""


def sentencepiece(vocabulary: Vocabulary) -> Pipeline:
    """BPE over characters, with bytes for those that are no token.

    Raises:
        CheckpointError: scores that are missing or no numbers, or a token that is too long.
        UnsupportedError: a vocabulary without bytes, or one that BPE's merges cannot order.
    """
    missing = BYTES - {vocabulary.tokens[i] for i in vocabulary.of_type(BYTE)}
    if missing:
        raise _unsupported(vocabulary, f"has no token for the byte {min(missing)}")
    # The others are found in a text before anything is joined, or spell what is no token.
    joined = set(range(len(vocabulary.tokens))) - vocabulary.of_type(
        UNKNOWN, CONTROL, USER_DEFINED, BYTE
    )
    prefix = vocabulary.fields.flag(f"{KEYS}.add_space_prefix", True)
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    back = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    before = [{"type": "Prepend", "prepend": SPACE}] if prefix else []
    after = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return Pipeline(
        special=vocabulary.of_type(UNKNOWN, CONTROL),
        others=vocabulary.of_type(USER_DEFINED),
        bos=True,
        steps={
            "normalizer": {"type": "Sequence", "normalizers": [*before, spaces]},
            "pre_tokenizer": None,
            "decoder": {
                "type": "Sequence",
                "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *after],
            },
            "model": bpe(vocabulary.tokens, _merges(vocabulary, joined), byte_fallback=True),
        },
    )


def _merges(vocabulary: Vocabulary, joined: set[int]) -> list[list[str]]:
    """Every two tokens that make a third, by its score, then by the length of the first.

    The latter is right where equal characters are joined from the left, as runs of spaces are,
    which all have one score in some vocabularies: then what stands further left is longer.
    """
    scores = vocabulary.scores()
    parts = {vocabulary.tokens[i] for i in joined}
    merges: list[tuple[float, list[str]]] = []
    last, alike = math.inf, ""
    for i in sorted(joined, key=lambda i: -scores[i]):
        token, score = vocabulary.tokens[i], scores[i]
        found = [[token[:at], token[at:]] for at in _cuts(token, vocabulary.path)]
        found = [cut for cut in found if parts.issuperset(cut)]
        if not math.isfinite(score):
            raise damaged(vocabulary.path, f"{KEYS}.scores gives {shorten(token)} {score}")
        if len(token) > 1 and (unknown := set(token) - parts):
            what = f"has {shorten(token)}, but no token {shorten(min(unknown))}"
            raise _unsupported(vocabulary, what)
        if found and score == last and len(set(alike + token)) > 1:
            what = f"has {shorten(alike)} and {shorten(token)} of one score, {score:g}"
            raise _unsupported(vocabulary, what)
        if found:
            last, alike = score, token
            merges += [(score, cut) for cut in found]
    merges.sort(key=lambda merge: (-merge[0], -len(merge[1][0]), -len(merge[1][1])))
    return [cut for _, cut in merges]


def _cuts(token: str, path: Path) -> range:
    if len(token) > LONGEST:
        raise damaged(path, f"{KEYS}.tokens holds one of {len(token)} characters")
    return range(1, len(token))


def _unsupported(vocabulary: Vocabulary, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"The tokenizer in {vocabulary.path.name} {what}.",
        remedy="Use the original checkpoint in safetensors format with its tokenizer.json.",
        code="unsupported.tokenizer",
    )
