"""What no grammar of calls is made of."""

from __future__ import annotations

from edgewise_runtime.errors import UnsupportedError


def refused(message: str) -> UnsupportedError:
    """The error for a tool whose calls cannot be forced."""
    return UnsupportedError(
        message,
        remedy="Change the tool's schema, or name another format of calls.",
        code="unsupported.tool_choice",
    )
