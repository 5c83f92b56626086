"""What only OpenAI's answers have."""

from __future__ import annotations

from edgewise.hosting.base import Facts

DONE = "data: [DONE]\n\n"
"""The last event of a stream."""


def fingerprint(facts: Facts) -> str:
    """What has to be the same for the same seed to give the same text."""
    return f"fp_{facts.program}_{facts.quant}"
