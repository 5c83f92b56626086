"""What kinds of tokenizers have apart from each other in tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pipeline:
    """From a text to tokens and back.

    Attributes:
        special: ids of tokens that are no text.
        others: ids of tokens that are found in a text before it is cut.
        bos: a text begins with the beginning token, unless the file says otherwise.
        steps: ``normalizer``, ``pre_tokenizer``, ``decoder`` and ``model`` of tokenizer.json.
    """

    special: set[int]
    others: set[int]
    bos: bool
    steps: Mapping[str, Any]


def bpe(
    tokens: list[str],
    merges: list[list[str]],
    *,
    ignore_merges: bool = False,
    byte_fallback: bool = False,
) -> dict[str, Any]:
    """The model of tokenizer.json; ``merges`` in the order in which they apply."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": byte_fallback,
        "ignore_merges": ignore_merges,
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": merges,
    }
