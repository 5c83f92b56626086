"""``proof.json``: a few tokens, and some of the logits that follow each of them.

The compiler computes them from the weights as a bundle has them, in NumPy, without a kernel. A GPU
program that gives others computes something else, whatever its driver says: `engine.prove` looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import Fields, parse_json

PROOF = "proof.json"
MAX_BYTES = 1 << 20

UNIT = 1000
"""Logits are whole thousandths, which every JSON reader has exactly."""

MAX_TOKENS = 256
MAX_IDS = 1024
MAX_LOGIT = 1 << 40

BOUNDS: Mapping[str, float] = {"f32": 0.05, "f16": 0.1}
OTHER_BOUND = 0.25
"""How far off a row of logits may be, in its standard deviations (RMS), by arithmetic: some ten
times what each rounds away (docs/testing.md), and a fifth or less of what a wrong answer is."""

LEAST_DEVIATION = 1e-3


@dataclass(frozen=True, slots=True)
class Proof:
    """What every program must answer.

    Attributes:
        tokens: ids of one text from its beginning.
        ids: token ids whose logits are known.
        logits: for each token, the thousandths of those logits once it has been read.
    """

    tokens: tuple[int, ...]
    ids: tuple[int, ...]
    logits: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "ids": list(self.ids),
            "logits": [list(row) for row in self.logits],
        }

    @staticmethod
    def from_json(value: object, vocab: int) -> Proof:
        """Read and check it.

        Raises:
            BundleError: whatever is wrong with it.
        """
        fields = Fields(value, PROOF, BundleError)
        tokens = fields.integers("tokens", 0, vocab - 1, most=MAX_TOKENS)
        ids = fields.integers("ids", 0, vocab - 1, most=MAX_IDS)
        rows = fields.items("logits", most=MAX_TOKENS)
        if not tokens or not ids or len(rows) != len(tokens):
            raise fields.fail(
                "proof", f"{len(rows)} rows of {len(ids)} logits for {len(tokens)} tokens"
            )
        logits = []
        for row in rows:
            if not isinstance(row, list) or len(row) != len(ids):
                raise fields.fail("proof", f"a row of logits is no list of {len(ids)}")
            one = Fields({"logits": row}, PROOF, BundleError)
            logits.append(one.integers("logits", -MAX_LOGIT, MAX_LOGIT, most=len(ids)))
        fields.done()
        return Proof(tokens, ids, tuple(logits))

    def distance(self, position: int, logits: Sequence[float]) -> float:
        """How far off the logits after a token are, in standard deviations of what is known.

        Args:
            position: of the token.
            logits: of all token ids.

        Returns:
            The root mean square over `ids`; NaN where a logit is.
        """
        known = [value / UNIT for value in self.logits[position]]
        mean = sum(known) / len(known)
        spread = math.sqrt(sum((value - mean) ** 2 for value in known) / len(known))
        off = [logits[i] - value for i, value in zip(self.ids, known, strict=True)]
        rms = math.sqrt(sum(value * value for value in off) / len(off))
        return rms / max(spread, LEAST_DEVIATION)


def bound_of(arithmetic: str) -> float:
    """How far off a program's logits may be, see `Proof.distance`."""
    return BOUNDS.get(arithmetic, OTHER_BOUND)


def read_proof(bundle: Bundle) -> Proof | None:
    """A bundle's proof, None where it has none.

    Raises:
        BundleError: a damaged one.
    """
    entry = bundle.manifest.files.get(PROOF)
    if entry is None:
        return None
    if entry.bytes > MAX_BYTES:
        message = f"{PROOF} has {entry.bytes:,} bytes; {MAX_BYTES:,} are read at most."
        raise BundleError(message, code="bundle.size")
    value = parse_json(bundle.read(PROOF), PROOF, BundleError)
    return Proof.from_json(value, bundle.model.vocab)
