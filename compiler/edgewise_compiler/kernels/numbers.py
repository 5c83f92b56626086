"""Numbers that kernels of every machine share, so that they compute the same thing."""

from __future__ import annotations

import math

from edgewise_runtime.format.abi import PAGE_TOKENS

SEGMENT = 64
"""Tokens whose attention is computed before partial results are merged."""

SEGMENT_PAGES = SEGMENT // PAGE_TOKENS

LONG_SEGMENTS = (4 * SEGMENT, 2 * SEGMENT)
"""The same in decode where a launch takes so long that few segments are worth more than many
workgroups: the longest for which there is room (docs/decisions/0096-*)."""

HEAD_STEP, MAX_HEAD_DIM = 16, 512
"""Widths of heads: multiples of the one up to the other."""

KV_DTYPES = ("int8", "float16", "float16x2", "float32")
"""What pages can hold, as kernels see it: float16x2 is float16 in words of two, for GPUs without
numbers of 16 bits."""

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
SQRT_HALF_BITS = 0x3F3504F3

EXP2 = (
    0.00015353361959569156,
    0.0013398873852565885,
    0.00961843691766262,
    0.055503323674201965,
    0.24022647738456726,
    0.6931471824645996,
    1.0,
)
"""Minimax in relative error for 2**x on [-0.5, 0.5], highest power first, with the constant term
fixed to 1; with every step an fma in float32 the largest relative error is 8e-8."""

WEIGHT_BITS = 30
"""The likeliest token's weight in sampling is 2**30."""

FLOAT_MAX = 3.4028234663852886e38
INFINITY_BITS, NAN_BITS = 0x7F800000, 0x7FC00000

BEYOND_HALF = 0x477FF000
"""Bits of 65520, the smallest float32 that is not rounded to a finite float16."""

GELU_CUBE = 0.044715
GELU_EXPONENT = 2 * math.sqrt(2 / math.pi) * math.log2(math.e)
"""Of the Gaussian error linear unit's approximation by tanh: the cube's weight, and what turns
``x + GELU_CUBE*x**3`` into an exponent of two (D. Hendrycks, K. Gimpel, arXiv 1606.08415)."""

CLAMP, CLAMPED_ALPHA = 7.0, 1.702
"""Of the clamped SwiGLU of gpt-oss: how far gates and what they gate go, and the factor in the
sigmoid."""
