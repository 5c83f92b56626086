"""edgewise: compile a language model with Apache TVM, and run it from Python."""

from __future__ import annotations

from edgewise.engine import Engine
from edgewise.options import SamplingOptions
from edgewise.stream import Stream
from edgewise_runtime.engine.completion import Completion, Timings, Usage
from edgewise_runtime.errors import EdgewiseError

__all__ = [
    "Completion",
    "EdgewiseError",
    "Engine",
    "SamplingOptions",
    "Stream",
    "Timings",
    "Usage",
]
