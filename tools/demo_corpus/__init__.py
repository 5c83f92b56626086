"""Generated dialogues for the demo model: a seed and a number give one dialogue, always the same.

Nothing here is copied: every text is expanded from the templates of this package.
"""

from __future__ import annotations

from .dialogue import DOCUMENT_END, TURN_END, TURN_START, Dialogue, Role, Turn
from .mix import generate

__all__ = [
    "DOCUMENT_END",
    "TURN_END",
    "TURN_START",
    "Dialogue",
    "Role",
    "Turn",
    "generate",
]
