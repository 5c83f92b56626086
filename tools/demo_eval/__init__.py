"""What the demo model should answer: questions and dialogues, written by hand.

`edgewise.jsonl` and `dialogues.jsonl` hold what a visitor may type and the words that a right
answer has. The generator of the training text never reads them.
"""

from __future__ import annotations

from .cases import Case, Step, is_right, load, looping, repeated_share

__all__ = ["Case", "Step", "is_right", "load", "looping", "repeated_share"]
