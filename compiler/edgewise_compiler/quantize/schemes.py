"""The weight schemes by name."""

from __future__ import annotations

from edgewise_compiler.quantize.affine import Q4A
from edgewise_compiler.quantize.codes import Scheme
from edgewise_compiler.quantize.floats import F16, F32
from edgewise_compiler.quantize.symmetric import Q4, Q4_NL, Q5, Q5_NL, Q6, Q6_NL, Q8
from edgewise_compiler.quantize.tables import IQ4_NL, MXFP4
from edgewise_compiler.quantize.two_levels import Q4K
from edgewise_runtime.errors import UnsupportedError

SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (F32, F16, Q8, Q6, Q6_NL, Q5, Q5_NL, Q4, Q4_NL, Q4A, Q4K, IQ4_NL, MXFP4)
}

NUMBERS = tuple(dict.fromkeys(s.numbers for s in SCHEMES.values() if s.groups))
"""What tensors of groups' numbers may be called."""


def find_scheme(name: str) -> Scheme:
    """The scheme called ``name``; UnsupportedError naming those there are."""
    if name not in SCHEMES:
        raise UnsupportedError(
            f"There is no weight scheme {name!r}.",
            remedy=f"Schemes: {', '.join(SCHEMES)}.",
            code="unsupported.scheme",
        )
    return SCHEMES[name]
