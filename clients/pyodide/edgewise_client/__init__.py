"""edgewise's engines of the browser, from Python in the same tab (Pyodide)."""

from __future__ import annotations

from edgewise_client.deltas import Piece
from edgewise_client.engine import RemoteEngine, TabEngine
from edgewise_client.errors import EdgewiseError, InputError, UnsupportedError
from edgewise_client.generation import Generation
from edgewise_client.results import (
    Completion,
    ModelInfo,
    Timings,
    TokenLogprob,
    ToolCall,
    Usage,
)

__all__ = [
    "Completion",
    "EdgewiseError",
    "Generation",
    "InputError",
    "ModelInfo",
    "Piece",
    "RemoteEngine",
    "TabEngine",
    "Timings",
    "TokenLogprob",
    "ToolCall",
    "UnsupportedError",
    "Usage",
]
