"""Weight schemes, by kind one file each: rows of floats to codes and back, and a table of names.

A scheme knows nothing of the order in which a bundle keeps weights; that is `layouts`.
"""

from __future__ import annotations

from edgewise_compiler.quantize.codes import CodedRows, CodeSource, Scheme
from edgewise_compiler.quantize.schemes import SCHEMES, find_scheme
from edgewise_compiler.quantize.symmetric import ZERO_POINT

__all__ = ["SCHEMES", "ZERO_POINT", "CodeSource", "CodedRows", "Scheme", "find_scheme"]
