"""edgewise: compile a language model with Apache TVM, and run it from Python."""

from __future__ import annotations

from edgewise.async_engine import AsyncEngine
from edgewise.engine import Engine
from edgewise.generation import AsyncGeneration, Generation
from edgewise.host import Settings
from edgewise.options import RequestOptions, SamplingOptions
from edgewise.stream import Stream
from edgewise_runtime.engine.completion import Completion, Timings, Usage
from edgewise_runtime.engine.sequence import Piece
from edgewise_runtime.errors import EdgewiseError

__all__ = [
    "AsyncEngine",
    "AsyncGeneration",
    "Completion",
    "EdgewiseError",
    "Engine",
    "Generation",
    "Piece",
    "RequestOptions",
    "SamplingOptions",
    "Settings",
    "Stream",
    "Timings",
    "Usage",
]
