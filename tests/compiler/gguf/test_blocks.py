"""Blocks of every type become the float32 values that the gguf package gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from edgewise_compiler.gguf.blocks import BY_NAME, REMOVED, TYPES

DECODED = [block.name for block in TYPES.values() if block.decode is not None]


def test_types_are_those_of_the_package_and_of_the_same_size() -> None:
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
    ours = {number: (b.name, b.elements, b.bytes) for number, b in TYPES.items()}
    assert ours == theirs
    assert not REMOVED.keys() & theirs.keys()


@pytest.mark.parametrize("name", DECODED)
def test_random_blocks_have_the_same_values(name: str) -> None:
    block, rng = BY_NAME[name], np.random.default_rng(len(name))
    # Whatever bytes say: subnormal, negative, infinite scales and NaN among them.
    raw = rng.integers(0, 256, (4096, block.bytes), np.uint8)
    with np.errstate(all="ignore"):
        theirs = dequantize(raw, GGMLQuantizationType[name]).reshape(4096, -1)
        assert block.decode is not None
        ours = block.decode(raw.reshape(-1).view(block.layout))
    assert ours.shape == (4096, block.elements)
    assert ours.dtype == np.float32
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    assert same.all()
    assert np.isfinite(ours).mean() > 0.5


def test_what_a_usual_file_holds_is_decoded() -> None:
    assert {"Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "MXFP4", "BF16"} <= set(DECODED)
