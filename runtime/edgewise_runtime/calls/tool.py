"""A tool as its calls are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CalledTool:
    """A tool that may be called.

    Attributes:
        schema: the JSON schema of its arguments.
        prefix: of the names of its rules in a grammar.
    """

    name: str
    schema: Mapping[str, Any]
    prefix: str
