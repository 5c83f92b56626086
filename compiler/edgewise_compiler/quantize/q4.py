"""``q4``: 4-bit integers -7..7 with a float16 scale per 32 columns, multiplied with int8 inputs.

A uint32 word holds columns 8i..8i+7 as the integer plus 7: byte b has column 8i+b in its low half
and column 8i+b+4 in its high half, so that one mask and one shift give two words of 8-bit operands.
"""

from __future__ import annotations

from functools import partial

from edgewise_compiler.quantize.base import Scheme
from edgewise_compiler.quantize.groups import group_arrays, pack_groups, unpack_groups

LIMIT, OFFSET, BITS = 7, 7, 4
SHIFTS = (0, 8, 16, 24, 4, 12, 20, 28)

Q4 = Scheme(
    name="q4",
    arithmetic="w4a8",
    arrays=partial(group_arrays, shifts=SHIFTS),
    pack=partial(pack_groups, limit=LIMIT, offset=OFFSET, shifts=SHIFTS),
    unpack=partial(unpack_groups, offset=OFFSET, bits=BITS, shifts=SHIFTS),
)
