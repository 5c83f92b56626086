"""The weight layouts that targets name."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_compiler.layouts.base import Layout
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.layouts.rows import GPU

LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in (CPU, GPU)}
"""By name, which is the folder of its files in a bundle."""
