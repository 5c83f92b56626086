"""How much work the runtime does for something, counted rather than timed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import edgewise_runtime

HOME = str(Path(edgewise_runtime.__file__).parent)


def instructions(operation: Callable[[], object]) -> int:
    """How many instructions of the runtime's Python an operation takes; what is done in C counts
    as the one that calls it."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        nonlocal count
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before, collecting = sys.gettrace(), gc.isenabled()
    # What others have left behind is not to be cleared away, and counted, here.
    gc.disable()
    sys.settrace(trace)
    try:
        operation()
    finally:
        sys.settrace(before)
        if collecting:
            gc.enable()
    return count
