"""``q8``: 8-bit integers -127..127, a float16 scale per 32 columns, multiplied with int8 inputs.

A uint32 word holds columns 4i..4i+3, one a byte, as the integer plus 128: the unsigned operand that
x86's VNNI instructions want.
"""

from __future__ import annotations

from functools import partial

from edgewise_compiler.quantize.base import Scheme
from edgewise_compiler.quantize.groups import group_arrays, pack_groups, unpack_groups

LIMIT, OFFSET, BITS = 127, 128, 8
SHIFTS = (0, 8, 16, 24)

Q8 = Scheme(
    name="q8",
    arithmetic="w8a8",
    arrays=partial(group_arrays, shifts=SHIFTS),
    pack=partial(pack_groups, limit=LIMIT, offset=OFFSET, shifts=SHIFTS),
    unpack=partial(unpack_groups, offset=OFFSET, bits=BITS, shifts=SHIFTS),
)
