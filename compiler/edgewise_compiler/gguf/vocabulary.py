"""The tokens of a GGUF file and the rest of its metadata about them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from edgewise_compiler.gguf.container import Value
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.weights.files import damaged
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

KEYS = "tokenizer.ggml"

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of tokens."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id.

    Attributes:
        metadata: values by key; ``fields`` are the same, read by type.
        path: the file, for messages.
        tokens: their texts, no two alike.
    """

    metadata: Mapping[str, Value]
    fields: ConfigFields
    path: Path
    tokens: list[str]

    @classmethod
    def read(cls, metadata: Mapping[str, Value], path: Path) -> Self:
        """Of a file's metadata.

        Raises:
            CheckpointError: no tokens, or one twice.
        """
        tokens = _texts(metadata, "tokens", path)
        if len(set(tokens)) != len(tokens):
            raise damaged(path, f"{KEYS}.tokens holds a token twice")
        return cls(metadata, ConfigFields(metadata, path.name), path, tokens)

    def texts(self, key: str) -> list[str]:
        """The list of strings under ``tokenizer.ggml.<key>``, not empty."""
        return _texts(self.metadata, key, self.path)

    def scores(self) -> list[float]:
        """What joining others into each token is worth."""
        return self._numbers("scores", "f", "a score")

    def of_type(self, *types: int) -> set[int]:
        """Ids of the tokens of these types; all are normal in a file that does not say."""
        if f"{KEYS}.token_type" not in self.metadata:
            return set(range(len(self.tokens))) if NORMAL in types else set()
        found = self._numbers("token_type", "iu", "a type")
        return {i for i, kind in enumerate(found) if kind in types}

    def id(self, key: str, default: int | None = None) -> int | None:
        """The token that ``tokenizer.ggml.<key>`` names; None for none."""
        if not self.fields.has(f"{KEYS}.{key}"):
            return default
        # All ones stands for none.
        token = self.fields.integer(f"{KEYS}.{key}", -1, (1 << 32) - 1)
        if token in (-1, (1 << 32) - 1):
            return None
        if token >= len(self.tokens):
            raise CheckpointError(
                f"{KEYS}.{key} in {self.path.name} is {token}, beyond its {len(self.tokens)} "
                "tokens.",
                remedy="Download the model again.",
                code="checkpoint.tokenizer",
            )
        return token

    def _numbers(self, key: str, kinds: str, what: str) -> list[Any]:
        found, count = self.metadata.get(f"{KEYS}.{key}"), len(self.tokens)
        if (
            not isinstance(found, np.ndarray)
            or found.dtype.kind not in kinds
            or len(found) != count
        ):
            raise damaged(self.path, f"{KEYS}.{key} does not give {count} tokens {what}")
        values: list[Any] = found.tolist()
        return values


def _texts(metadata: Mapping[str, Value], key: str, path: Path) -> list[str]:
    found = metadata.get(f"{KEYS}.{key}")
    if not isinstance(found, list) or not found:
        raise damaged(path, f"{KEYS}.{key} is {shorten(found)}, not a list of texts")
    return found
