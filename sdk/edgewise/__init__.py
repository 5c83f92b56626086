"""edgewise: compile a language model with Apache TVM, and run it from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.answers import Completion, Piece
from edgewise.async_engine import AsyncEngine
from edgewise.async_generation import AsyncGeneration
from edgewise.compiling import compile  # noqa: A004 (called as edgewise.compile)
from edgewise.engine import Engine
from edgewise.evaluation import Apart, Evaluation, ModelScore, evaluate
from edgewise.generation import Generation, Stream
from edgewise.options import RequestOptions, SamplingOptions, SubmitOptions
from edgewise.reranking import Ranked
from edgewise.response_format import ResponseFormat, grammar, regex
from edgewise.settings import Settings
from edgewise.tool_calls import ToolCall
from edgewise_runtime.engine.completion import Timings, Usage
from edgewise_runtime.engine.logprobs import TokenLogprob
from edgewise_runtime.errors import (
    BundleError,
    CheckpointError,
    CompileError,
    DeviceError,
    EdgewiseError,
    EngineError,
    HubError,
    InputError,
    PlanError,
    StorageError,
    TrustError,
    UnsupportedError,
)
from edgewise_runtime.installed import VERSION

if TYPE_CHECKING:
    from edgewise.browser_engine import BrowserEngine

__version__ = VERSION

__all__ = [
    "Apart",
    "AsyncEngine",
    "AsyncGeneration",
    "BrowserEngine",
    "BundleError",
    "CheckpointError",
    "CompileError",
    "Completion",
    "DeviceError",
    "EdgewiseError",
    "Engine",
    "EngineError",
    "Evaluation",
    "Generation",
    "HubError",
    "InputError",
    "ModelScore",
    "Piece",
    "PlanError",
    "Ranked",
    "RequestOptions",
    "ResponseFormat",
    "SamplingOptions",
    "Settings",
    "StorageError",
    "Stream",
    "SubmitOptions",
    "Timings",
    "TokenLogprob",
    "ToolCall",
    "TrustError",
    "UnsupportedError",
    "Usage",
    "__version__",
    "compile",
    "evaluate",
    "grammar",
    "regex",
]


def __getattr__(name: str) -> Any:
    """Names that few use, whose modules take a while to import."""
    if name == "BrowserEngine":
        from edgewise.browser_engine import BrowserEngine

        return BrowserEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
