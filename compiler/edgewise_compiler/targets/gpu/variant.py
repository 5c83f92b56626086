"""A program of a GPU target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.state import KV_KINDS, KV_SUFFIXES


@dataclass(frozen=True)
class Variant:
    """One program of a GPU target: what it computes in.

    ``half`` means float16 arithmetic: the tiles of prefill, and pages as kernels see them;
    ``subgroups`` that kernels may use them; ``int8`` that prefill multiplies integers instead, for
    integer weights; ``serial`` that no thread of a linear or of attention waits for another, for
    adapters to which barriers are dear; ``tensor`` that prefill multiplies by instructions for
    matrices, in float16; ``kv_dtype`` is what pages hold.
    """

    name: str
    half: bool
    subgroups: bool
    int8: bool = False
    serial: bool = False
    tensor: bool = False
    kv_dtype: str = "float16"

    def arithmetic(self, weights: str) -> str:
        """As the bundle names it, over weights of a scheme whose arithmetic is ``weights``."""
        if self.int8:
            return weights
        return "f16" if self.half else "f32"

    @property
    def sampler_threads(self) -> int:
        """Threads of the sampler's workgroups. Their shared memory grows with them, and adapters in
        software compile a store for each word of it, which is to be 0 at first: milliseconds."""
        return 32 if self.serial else 256

    @property
    def kv_seen(self) -> str:
        """How kernels see what pages hold: without float16 of their own, words of two."""
        return "float16x2" if self.kv_dtype == "float16" and not self.half else self.kv_dtype


def made_for(
    floats: Sequence[Variant], integers: Sequence[Variant], scheme: str, kv: str
) -> tuple[Variant, ...]:
    """A target's programs for a weight scheme, and for pages as the option ``kv`` has them.

    Of their own they hold float16, and float32 where weights are floats themselves and float16 is
    nowhere else.

    Args:
        floats: its variants of float arithmetic, in order of preference.
        integers: those that exist for integer weights only, behind them.
    """
    integer = SCHEMES[scheme].integer
    made = []
    for variant in (*floats, *(integers if integer else ())):
        own = "float16" if integer or variant.half else "float32"
        dtype = KV_KINDS[kv] or own
        suffix = "" if dtype == own else KV_SUFFIXES[dtype]
        made.append(replace(variant, name=variant.name + suffix, kv_dtype=dtype))
    return tuple(made)
