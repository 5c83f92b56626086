"""Writes transformers.json: what transformers makes of the cases of formats that it knows.

    python -m tests.runtime.calls.goldens.make_goldens

Written with transformers 5.23.0, whose server knows Qwen's and Gemma 4's answers. Cases that it
raises an error for are left out: calls that are none, which it does not go on after.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers.cli.serving.utils import _RESPONSE_TEMPLATE_FALLBACKS, _normalize_tool_call
from transformers.utils.chat_parsing import parse_response

from tests.runtime.calls.cases import Case, cases

MODELS = {"hermes": "qwen3", "qwen3_coder": "qwen3_5", "gemma4": "gemma4"}
TURNS = {"gemma4": "<|turn>model\n"}
CHATML = "<|im_start|>assistant\n"


def made(case: Case) -> dict[str, Any] | None:
    """The message that transformers makes of a case."""
    template = next(
        given
        for models, given in _RESPONSE_TEMPLATE_FALLBACKS.items()
        if MODELS[case.form] in models
    )
    tools: list[Any] = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in (case.tools or {}).items()
    ]
    prefix = TURNS.get(case.form, CHATML) + ("<think>\n" if case.opened else "")
    try:
        message = parse_response(case.text, template, prefix=prefix, tools=tools)
        calls = [_normalize_tool_call(call) for call in message.get("tool_calls", [])]
        read = [[call.name, json.loads(call.arguments)] for call in calls]
    except (ValueError, KeyError, TypeError):
        return None
    return {
        "content": message.get("content") or "",
        "reasoning": message.get("reasoning_content") or "",
        "calls": read,
    }


def main() -> None:
    found = [
        {"format": case.form, "what": case.what, **message}
        for case in cases()
        if case.form in MODELS
        for message in [made(case)]
        if message is not None
    ]
    lines = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in found)
    Path(__file__).with_name("transformers.json").write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
