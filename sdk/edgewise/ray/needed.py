"""Imported before all else of this package: refuses it where Ray is missing."""

from __future__ import annotations

from edgewise_runtime.installed import RAY, need

__all__ = ["RAY"]

need(RAY)
