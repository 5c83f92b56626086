"""Calls of tools, and thoughts, in a model's answer while it comes: one parser a file."""

from __future__ import annotations

from edgewise_runtime.calls.deltas import (
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    NoCall,
    Reasoning,
    joined,
)
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.formats import FORMATS, format_named, format_of
from edgewise_runtime.calls.grammar import CallGrammar, call_grammar
from edgewise_runtime.calls.parser import Parser

__all__ = [
    "FORMATS",
    "Arguments",
    "CallBegins",
    "CallEnds",
    "CallGrammar",
    "Content",
    "Delta",
    "Format",
    "NoCall",
    "Parser",
    "Reasoning",
    "Spelling",
    "call_grammar",
    "format_named",
    "format_of",
    "joined",
]
