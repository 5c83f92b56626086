"""Philox4x32-10 in kernels and in the reference, against the generator's published vectors."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.tirx import Buffer

from edgewise_compiler.kernels.cpu.sampling.philox import philox4x32
from edgewise_compiler.kernels.cpu.vector import store
from edgewise_compiler.kernels.function import Arg, kernel
from tests.compiler.kernels import sampling_reference
from tests.compiler.kernels.conftest import RUNNABLE, aligned, aligned_copy, build

# From kat_vectors of Random123: counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_the_reference_gives_the_known_answers(
    counter: list[int], key: list[int], expected: list[int]
) -> None:
    assert sampling_reference.philox4x32(counter, key) == expected


def test_the_kernel_gives_the_known_answers() -> None:
    def body(words: Buffer, out: Buffer) -> None:
        counter, key = [words[i] for i in range(4)], [words[4 + i] for i in range(2)]
        for i, word in enumerate(philox4x32(counter, key)):
            store(out, word, i)

    arguments = [Arg("words", "uint32", (6,)), Arg("out", "uint32", (4,))]
    call = build([kernel("philox", arguments, body)], RUNNABLE[0])["philox"]
    for counter, key, expected in KNOWN:
        out = aligned(4, "uint32")
        call(aligned_copy(np.array(counter + key, "uint32")), out)
        assert out.tolist() == expected
