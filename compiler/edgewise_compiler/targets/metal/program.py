"""Metal's part of a bundle, see `targets.gpu.language`."""

from __future__ import annotations

from functools import partial

from edgewise_compiler.targets.gpu.language import Language, make_programs
from edgewise_compiler.targets.metal.codegen import shader
from edgewise_compiler.targets.metal.limits import LIMITS
from edgewise_compiler.targets.metal.variants import features_of, variants_for

TARGET = "metal"
LANGUAGE = Language(TARGET, LIMITS, "metal", shader, variants_for, features_of)

make = partial(make_programs, LANGUAGE)
