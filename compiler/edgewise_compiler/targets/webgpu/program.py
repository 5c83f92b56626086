"""WebGPU's part of a bundle, see `targets.gpu.language`."""

from __future__ import annotations

from functools import partial

from edgewise_compiler.targets.gpu.language import Language, make_programs
from edgewise_compiler.targets.webgpu.codegen import shader
from edgewise_compiler.targets.webgpu.limits import LIMITS
from edgewise_compiler.targets.webgpu.variants import features_of, variants_for

TARGET = "webgpu"
LANGUAGE = Language(TARGET, LIMITS, "wgsl", shader, variants_for, features_of, joining=True)

make = partial(make_programs, LANGUAGE)
