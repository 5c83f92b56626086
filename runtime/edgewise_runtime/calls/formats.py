"""Which format an answer is in: told by the text of the model's chat template, or by name."""

from __future__ import annotations

from edgewise_runtime.calls.deepseek import DEEPSEEK, DEEPSEEK31
from edgewise_runtime.calls.format import Format
from edgewise_runtime.calls.gemma import FUNCTION_GEMMA, GEMMA, GEMMA4
from edgewise_runtime.calls.generic import GENERIC
from edgewise_runtime.calls.harmony import HARMONY
from edgewise_runtime.calls.hermes import HERMES
from edgewise_runtime.calls.llama3 import LLAMA3
from edgewise_runtime.calls.mistral import MISTRAL, MISTRAL_LIST
from edgewise_runtime.calls.qwen3_coder import QWEN3_CODER
from edgewise_runtime.errors import UnsupportedError

# What all has to stand in a template, the more telling first.
_TOLD_BY: tuple[tuple[Format, tuple[str, ...]], ...] = (
    (HARMONY, ("<|channel|>", "<|message|>")),
    (GEMMA4, ("<|tool_call>", "<tool_call|>")),
    (FUNCTION_GEMMA, ("<start_function_call>",)),
    (DEEPSEEK, ("<｜tool▁call▁begin｜>", "```json")),
    (DEEPSEEK31, ("<｜tool▁call▁begin｜>",)),
    (MISTRAL, ("[TOOL_CALLS]", "[ARGS]")),
    (MISTRAL_LIST, ("[TOOL_CALLS]",)),
    (QWEN3_CODER, ("<tool_call>", "<function=")),
    (HERMES, ("<tool_call>",)),
    (LLAMA3, ("<|python_tag|>",)),
    (LLAMA3, ("<|start_header_id|>", "ipython")),
    (GEMMA, ("<start_of_turn>",)),
)
FORMATS = {form.name: form for form in (*(told for told, _ in _TOLD_BY), GENERIC)}
"""All formats by name."""


def format_of(template: str) -> Format:
    """The format that a chat template's text tells of; plain JSON where it tells of none."""
    for form, marks in _TOLD_BY:
        if all(mark in template for mark in marks):
            return form
    return GENERIC


def format_named(name: str) -> Format:
    """The format of a name.

    Raises:
        UnsupportedError: ``unsupported.calls``, there is none.
    """
    if name not in FORMATS:
        raise UnsupportedError(
            f"No format of tool calls is called {name[:80]!r}.",
            remedy=f"There are {', '.join(sorted(FORMATS))}.",
            code="unsupported.calls",
        )
    return FORMATS[name]
