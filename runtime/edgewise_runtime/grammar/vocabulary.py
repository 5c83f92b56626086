"""The bytes of a model's tokens, as tries that masks are made by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.tries import Trie, trie_of

_MAX_BYTES = 1 << 24
"""Bytes of all tokens at most; 150,000 have about a million."""
_LONGEST = (8, 32)
"""Bytes of the longest tokens of a trie, but for that of all longer ones."""


class Vocabulary:
    """The tokens of a model by the bytes that they stand for, made once per tokenizer.

    A token is None that no text is made of: one that controls, or an id that pads. So is what has
    no bytes: a grammar never allows either.

    Attributes:
        size: how many tokens there are.
        tries: of short tokens, of longer ones, …: the masks of short tokens are the same in more
            places, since no limit that is further away than a token is long matters.
        silent: bool [size]: tokens without bytes.
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        """Raises InputError ``constraint.too_large`` for more bytes than any vocabulary has."""
        self._tokens = tuple(tokens)
        self.size = len(self._tokens)
        total = sum(len(data) for data in self._tokens if data)
        if total > _MAX_BYTES:
            raise InputError(
                f"The tokens of a vocabulary have {total:,} bytes; {_MAX_BYTES:,} are the most.",
                code="constraint.too_large",
            )
        self.silent = np.array([not data for data in self._tokens], bool)
        self.silent.flags.writeable = False
        texts = [(data, token) for token, data in enumerate(self._tokens) if data]
        texts.sort()
        longest = max((len(data) for data, _ in texts), default=0)
        tries: list[Trie] = []
        above = 0
        for most in (*(length for length in _LONGEST if length < longest), longest):
            tries.append(trie_of([pair for pair in texts if above < len(pair[0]) <= most], most))
            above = most
        self.tries = tuple(tries)

    def bytes_of(self, token: int) -> bytes | None:
        """The bytes of a token; None where it has none, or is none of the vocabulary."""
        return self._tokens[token] if 0 <= token < self.size else None
