"""Vulkan's part of a bundle, see `targets.gpu.language`."""

from __future__ import annotations

from functools import partial

from edgewise_compiler.targets.gpu.language import Language, make_programs
from edgewise_compiler.targets.vulkan.codegen import shader
from edgewise_compiler.targets.vulkan.limits import LIMITS
from edgewise_compiler.targets.vulkan.listing import listing
from edgewise_compiler.targets.vulkan.variants import features_of, variants_for

TARGET = "vulkan"
LANGUAGE = Language(TARGET, LIMITS, "spv", shader, variants_for, features_of, listing, joining=True)

make = partial(make_programs, LANGUAGE)
