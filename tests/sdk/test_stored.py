"""What the weights of a bundle take, read from the sizes of its tensors."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.stored import Stored, stored_by_scheme
from edgewise_compiler.layouts.packing import layout_tensors
from edgewise_compiler.layouts.table import LAYOUTS
from edgewise_compiler.models.base import LinearSpec, ParamSpec, VectorSpec
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.format.manifest import TensorEntry

PARAMS: tuple[ParamSpec, ...] = (
    LinearSpec("embed", ("e",), (320,), 64),
    LinearSpec("layers.0.down", ("d",), (64,), 256),
    VectorSpec("norm", "n", 64),
)


def tensors(layout: str, **schemes: str) -> dict[str, TensorEntry]:
    """The entries of PARAMS in a layout, each with its scheme."""
    found = {"embed": SCHEMES[schemes["embed"]], "layers.0.down": SCHEMES[schemes["down"]]}
    made = layout_tensors(LAYOUTS[layout], found, PARAMS, context=8)
    return {
        name: TensorEntry("file", spec.dtype, spec.shape, 0, spec.bytes)
        for name, spec in made.items()
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_integers_are_told_apart_by_their_bits_and_count_their_scales(layout: str) -> None:
    found = stored_by_scheme(tensors(layout, embed="q8", down="q4"))
    assert found == {
        "q8": Stored(320 * 64, 320 * 64 * 34 // 32),
        "q4": Stored(64 * 256, 64 * 256 * 18 // 32),
        "f32": Stored(64, 256),
    }
    assert list(found) == ["q8", "q4", "f32"]
    assert [found["q8"].bits, found["q4"].bits] == [8.5, 4.5]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("scheme", "numbers"), [("q4a", 2), ("q4k", 1), ("iq4_nl", 1), ("mxfp4", 1)]
)
def test_other_integers_of_four_bits_are_known_by_what_their_numbers_are_called(
    layout: str, scheme: str, numbers: int
) -> None:
    found = stored_by_scheme(tensors(layout, embed="q4", down=scheme))
    assert found == {
        "q4": Stored(320 * 64, 320 * 64 * 18 // 32),
        scheme: Stored(64 * 256, 64 * 256 * (16 + 2 * numbers) // 32),
        "f32": Stored(64, 256),
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_floats_are_told_apart_and_vectors_are_among_them(layout: str) -> None:
    found = stored_by_scheme(tensors(layout, embed="f32", down="f16"))
    assert found == {
        "f32": Stored(320 * 64 + 64, 4 * (320 * 64 + 64)),
        "f16": Stored(64 * 256, 2 * 64 * 256),
    }


def test_scales_too_small_to_be_any_are_no_division_by_zero() -> None:
    odd = {
        name: TensorEntry("file", "int8", (1,), 0, 1) for name in ("a.weight", "a.scale", "scale")
    }
    found = stored_by_scheme(odd)
    assert sum(stored.bytes for stored in found.values()) == 3
    assert np.isfinite([stored.bits for stored in found.values()]).all()
