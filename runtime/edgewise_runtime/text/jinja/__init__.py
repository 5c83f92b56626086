"""Jinja for chat templates, which are foreign code: what one computes, holds and writes is bounded.

An interpreter of our own, whose twin for browsers is `web/engine/jinja`: the same grammar, values,
limits and charges, so that a template gives the same text in both or is refused by both. What it
knows of Jinja is what chat templates use; the rest is refused, never rendered otherwise.
"""

from __future__ import annotations

from edgewise_runtime.text.jinja.render import Template, compile_template
from edgewise_runtime.text.jinja.run import TemplateError, TemplateLimitError

__all__ = ["Template", "TemplateError", "TemplateLimitError", "compile_template"]
