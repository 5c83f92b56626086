"""Codes of a block, in a scheme of ours, are the weights that the block has as floats."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.gguf.blocks import BY_NAME, TYPES, Floats, Records
from edgewise_compiler.gguf.codes import HELD
from edgewise_compiler.quantize import SCHEMES, CodedRows
from edgewise_runtime.errors import CheckpointError

COUNT = 2048
UNPACKED = [
    (kind, scheme)
    for kind, unpackers in HELD.items()
    for scheme, unpack in unpackers.items()
    if unpack is not None
]
ROUNDED = {"IQ4_XS"}
"""Types whose groups have scales of more bits than a float16."""


def random_blocks(kind: str) -> Records:
    """Every code there is, and finite scales of either sign, subnormal ones among them."""
    block, rng = BY_NAME[kind], np.random.default_rng(len(kind))
    blocks = rng.integers(0, 256, (COUNT, block.bytes), np.uint8).reshape(-1).view(block.layout)
    names = block.layout.names
    assert names is not None
    for name in {"d", "dmin", "m"} & set(names):
        scales = rng.standard_normal(COUNT) * np.exp2(rng.integers(-22, 2, COUNT))
        blocks[name] = scales.astype(np.float16)
    if "e" in names:
        blocks["e"] = rng.integers(128 - 24, 128 + 16, COUNT)
    return blocks


def values(kind: str) -> tuple[Records, Floats]:
    blocks, decode = random_blocks(kind), BY_NAME[kind].decode
    assert decode is not None
    return blocks, decode(blocks)


def coded(kind: str, scheme: str, blocks: Records) -> CodedRows:
    unpack = HELD[kind][scheme]
    assert unpack is not None
    return unpack(blocks)


def bits(floats: Floats) -> NDArray[np.uint32]:
    return np.ascontiguousarray(floats).view(np.uint32)


@pytest.mark.parametrize(("kind", "scheme"), [c for c in UNPACKED if c[0] not in ROUNDED])
def test_values_are_those_of_the_file_bit_for_bit(kind: str, scheme: str) -> None:
    blocks, expected = values(kind)
    rows = coded(kind, scheme, blocks)
    assert rows.codes.dtype == np.uint8
    assert tuple(rows.groups) == SCHEMES[scheme].groups
    np.testing.assert_array_equal(bits(SCHEMES[scheme].dequantize(rows)), bits(expected))


@pytest.mark.parametrize(("kind", "scheme"), [c for c in UNPACKED if c[0] in ROUNDED])
def test_computed_scales_are_rounded_to_float16_and_nothing_else_is(kind: str, scheme: str) -> None:
    blocks, expected = values(kind)
    found = SCHEMES[scheme].dequantize(coded(kind, scheme, blocks))
    largest = np.abs(expected).reshape(COUNT, -1, 32).max(axis=2).repeat(32, axis=1)
    # Half a step of a float16's 11 bits, or of the least subnormal one times 127.
    assert (np.abs(found - expected) <= np.maximum(largest * 2.0**-11, 127 * 2.0**-25)).all()


def test_a_type_is_held_by_integers_narrowest_first_and_in_any_company() -> None:
    decoded = {block.name for block in TYPES.values() if block.decode is not None}
    assert set(HELD) == decoded - {"F32", "F16", "BF16"}
    for held in HELD.values():
        found = [int(SCHEMES[scheme].code.removeprefix("uint")) for scheme in held]
        assert found == sorted(found)
        assert list(held)[-1] == "q8"


def test_a_scale_beyond_float16_is_refused() -> None:
    blocks = random_blocks("MXFP4")
    blocks["e"][7] = 200
    with pytest.raises(CheckpointError, match="65504") as caught:
        coded("MXFP4", "q6", blocks)
    assert caught.value.code == "checkpoint.range"


GRIDS = {
    "Q2_K": (4, 16, True),
    "Q3_K": (8, 16, False),
    "Q4_1": (16, 32, True),
    "Q4_K": (16, 32, True),
    "Q5_1": (32, 32, True),
    "Q5_K": (32, 32, True),
    "Q6_K": (64, 16, False),
}
"""Values of a group, how many weights have one scale, and whether one is the group's least."""


@pytest.mark.parametrize("kind", [kind for kind, held in HELD.items() if None in held.values()])
def test_what_is_rounded_again_gets_the_narrowest_scheme_that_adds_at_most_half(kind: str) -> None:
    levels, size, least = GRIDS[kind]
    exact = np.random.default_rng(1).standard_normal((4096, size), dtype=np.float32)
    low, high = exact.min(axis=1, keepdims=True), exact.max(axis=1, keepdims=True)
    step = (high - low) / (levels - 1) if least else np.where(-low > high, low, high) / (levels / 2)
    zero = low if least else -step * (levels / 2)
    found = (np.clip(np.rint((exact - zero) / step), 0, levels - 1) * step + zero).astype(
        np.float32
    )
    own = np.mean((found - exact) ** 2)
    rows = found.reshape(-1, 128)

    def added(scheme: str) -> float:
        again = SCHEMES[scheme].dequantize(SCHEMES[scheme].quantize(rows.copy()))
        return float(np.mean((again - rows) ** 2) / own)

    narrowest = next(scheme for scheme in ("q4", "q5", "q6", "q8") if added(scheme) <= 0.5)
    assert next(name for name, unpack in HELD[kind].items() if unpack is None) == narrowest
