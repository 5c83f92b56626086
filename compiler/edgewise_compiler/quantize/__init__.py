"""Weight schemes, by kind one file each: rows of floats to codes and back, and a table of names.
Recipes say which tensors get which.

A scheme knows nothing of the order in which a bundle keeps weights; that is `layouts`.
"""

from __future__ import annotations

from edgewise_compiler.quantize.codes import CodedRows, CodeSource, Scheme
from edgewise_compiler.quantize.recipe_file import read_recipe
from edgewise_compiler.quantize.recipes import (
    AS_FILE,
    DEFAULT_QUANT,
    PRESETS,
    QUANTS,
    Recipe,
    Rule,
    find_preset,
)
from edgewise_compiler.quantize.scales import scale_words
from edgewise_compiler.quantize.schemes import NUMBERS, SCHEMES, find_scheme
from edgewise_compiler.quantize.split import AnyScheme, Split, bands, chooses, schemes_of
from edgewise_compiler.quantize.symmetric import ZERO_POINT
from edgewise_compiler.quantize.tables import TABLES, table_bytes

__all__ = [
    "AS_FILE",
    "DEFAULT_QUANT",
    "NUMBERS",
    "PRESETS",
    "QUANTS",
    "SCHEMES",
    "TABLES",
    "ZERO_POINT",
    "AnyScheme",
    "CodeSource",
    "CodedRows",
    "Recipe",
    "Rule",
    "Scheme",
    "Split",
    "bands",
    "chooses",
    "find_preset",
    "find_scheme",
    "read_recipe",
    "scale_words",
    "schemes_of",
    "table_bytes",
]
