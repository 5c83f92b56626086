"""What the weights of a bundle take, by the scheme that each tensor is in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edgewise_runtime.format.abi import GROUP
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.manifest import TensorEntry


@dataclass(frozen=True)
class Stored:
    """Numbers of the model, padding included, and the bytes they take, with scales."""

    weights: int = 0
    bytes: int = 0

    @property
    def bits(self) -> float:
        """Bits that a number takes."""
        return self.bytes * 8 / max(1, self.weights)

    def __add__(self, other: Stored) -> Stored:
        return Stored(self.weights + other.weights, self.bytes + other.bytes)


def stored_by_scheme(tensors: Mapping[str, TensorEntry]) -> dict[str, Stored]:
    """What the tensors of a layout take, by scheme, the largest share first.

    No bundle says of a tensor which scheme it is in: a matrix of integers has a ``.scale`` beside
    its ``.weight``, a float16 for 32 numbers; what has none holds floats, in the ``gpu`` layout two
    float16 to a uint32.
    """
    found: dict[str, Stored] = {}
    for scheme, stored in _each(tensors):
        found[scheme] = found.get(scheme, Stored()) + stored
    return dict(sorted(found.items(), key=lambda item: -item[1].bytes))


def _each(tensors: Mapping[str, TensorEntry]) -> Iterator[tuple[str, Stored]]:
    for name, entry in tensors.items():
        linear, _, what = name.rpartition(".")
        if what == "scale" and f"{linear}.weight" in tensors:
            continue  # It counts with its codes.
        scale = tensors.get(f"{linear}.scale") if what == "weight" else None
        if scale is not None:
            weights = scale.bytes // DTYPES["float16"] * GROUP
            bits = entry.bytes * 8 // max(1, weights)
            yield f"q{bits}", Stored(weights, entry.bytes + scale.bytes)
        elif entry.dtype == "float32":
            yield "f32", Stored(entry.bytes // DTYPES["float32"], entry.bytes)
        else:
            yield "f16", Stored(entry.bytes // DTYPES["float16"], entry.bytes)
