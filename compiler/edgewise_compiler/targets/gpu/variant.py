"""A program of a GPU target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """One program of a GPU target: what it computes in.

    ``half`` means pages and the tiles of prefill in float16; ``subgroups`` that kernels may use
    them; ``int8`` that prefill multiplies integers instead, for integer weights; ``serial`` that no
    thread of a linear or of attention waits for another, for adapters to which barriers are dear;
    ``codes`` that pages hold int8 codes instead.
    """

    name: str
    half: bool
    subgroups: bool
    int8: bool = False
    serial: bool = False
    codes: bool = False

    def arithmetic(self, weights: str) -> str:
        """As the bundle names it, over weights of a scheme whose arithmetic is ``weights``."""
        if self.int8:
            return weights
        return "f16" if self.half else "f32"

    @property
    def kv_dtype(self) -> str:
        """What pages hold."""
        if self.codes:
            return "int8"
        return "float16" if self.half else "float32"
