"""CUDA's part of a bundle, see `targets.gpu.language`."""

from __future__ import annotations

from functools import partial

from edgewise_compiler.targets.cuda.codegen import shader
from edgewise_compiler.targets.cuda.fatbin import fatbin
from edgewise_compiler.targets.cuda.limits import LIMITS
from edgewise_compiler.targets.cuda.variants import features_of, variants_for
from edgewise_compiler.targets.gpu.language import Language, make_programs

TARGET = "cuda"
LANGUAGE = Language(
    TARGET, LIMITS, "fatbin", shader, variants_for, features_of, binary=fatbin, text="cu"
)

make = partial(make_programs, LANGUAGE)
