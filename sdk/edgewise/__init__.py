"""edgewise: compile a language model with Apache TVM, and run it from Python."""

from __future__ import annotations

from edgewise.async_engine import AsyncEngine
from edgewise.async_generation import AsyncGeneration
from edgewise.engine import Engine
from edgewise.evaluation import Apart, Evaluation, ModelScore, evaluate
from edgewise.generation import Generation, Stream
from edgewise.request import RequestOptions, SamplingOptions, SubmitOptions
from edgewise.settings import Settings
from edgewise_runtime.engine.completion import Completion, Timings, Usage
from edgewise_runtime.engine.logprobs import TokenLogprob
from edgewise_runtime.engine.sequence import Piece
from edgewise_runtime.errors import EdgewiseError

__all__ = [
    "Apart",
    "AsyncEngine",
    "AsyncGeneration",
    "Completion",
    "EdgewiseError",
    "Engine",
    "Evaluation",
    "Generation",
    "ModelScore",
    "Piece",
    "RequestOptions",
    "SamplingOptions",
    "Settings",
    "Stream",
    "SubmitOptions",
    "Timings",
    "TokenLogprob",
    "Usage",
    "evaluate",
]
