"""Text in, token ids out, and back: tokenizer, chat template, incremental detokenizer."""

from __future__ import annotations

from edgewise_runtime.text.control import ControlTokens
from edgewise_runtime.text.detokenize import Detokenizer
from edgewise_runtime.text.segments import SegmentCache
from edgewise_runtime.text.template import ChatTemplate
from edgewise_runtime.text.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "ControlTokens", "Detokenizer", "SegmentCache", "Tokenizer"]
