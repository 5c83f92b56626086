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

    Beside the ``.weight`` of a matrix of integers lies a tensor with the numbers of each 32. It is
    called after the scheme, ``.iq4_nl_scale``, whose name has the bits of a code; where it is only
    ``.scale``, a float16 each, bits tell schemes apart. What has none holds floats, in the ``gpu``
    layout two float16 to a uint32.
    """
    found: dict[str, Stored] = {}
    for scheme, stored in _each(tensors):
        found[scheme] = found.get(scheme, Stored()) + stored
    return dict(sorted(found.items(), key=lambda item: -item[1].bytes))


def _each(tensors: Mapping[str, TensorEntry]) -> Iterator[tuple[str, Stored]]:
    numbers = dict(_numbers(tensors))
    for name, entry in tensors.items():
        linear, _, what = name.rpartition(".")
        if what.endswith("scale") and f"{linear}.weight" in tensors:
            continue  # It counts with its codes.
        if what == "weight" and linear in numbers:
            scheme, scale = numbers[linear]
            if scheme:
                weights = entry.bytes * 8 // _bits(scheme)
            else:
                weights = scale.bytes // DTYPES["float16"] * GROUP
                scheme = f"q{entry.bytes * 8 // max(1, weights)}"
            yield scheme, Stored(weights, entry.bytes + scale.bytes)
        elif entry.dtype == "float32":
            yield "f32", Stored(entry.bytes // DTYPES["float32"], entry.bytes)
        else:
            yield "f16", Stored(entry.bytes // DTYPES["float16"], entry.bytes)


def _numbers(
    tensors: Mapping[str, TensorEntry],
) -> Iterator[tuple[str, tuple[str, TensorEntry]]]:
    """For each matrix of integers the scheme that its groups' numbers name, if any, and those."""
    for name, entry in tensors.items():
        linear, _, what = name.rpartition(".")
        if what.endswith("scale"):
            yield linear, (what.removesuffix("scale").removesuffix("_"), entry)


def _bits(scheme: str) -> int:
    """Of a code, by the scheme's name: 4 of ``iq4_nl`` and ``mxfp4``."""
    return next(int(sign) for sign in scheme if sign.isdigit())
