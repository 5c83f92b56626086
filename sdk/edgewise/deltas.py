"""What a stream of an answer is made of: see `edgewise.Piece.deltas` and `edgewise.Stream.deltas`.

`Content` is said and `Reasoning` thought. `CallBegins`, `Arguments` and `CallEnds` are of a call of
a tool; `NoCall` takes one back that was none, and its text is then said.
"""

from __future__ import annotations

from edgewise_runtime.calls import (
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    NoCall,
    Reasoning,
)

__all__ = ["Arguments", "CallBegins", "CallEnds", "Content", "Delta", "NoCall", "Reasoning"]
