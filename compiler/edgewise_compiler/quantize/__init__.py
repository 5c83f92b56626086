"""Weight schemes: one file each, and the table that names them."""

from __future__ import annotations

from edgewise_compiler.quantize.base import ArraySpec, Scheme
from edgewise_compiler.quantize.schemes import SCHEMES, find_scheme

__all__ = ["SCHEMES", "ArraySpec", "Scheme", "find_scheme"]
