"""One line about how fast a completion was."""

from __future__ import annotations

from edgewise_runtime.engine.completion import Completion


def speed(completion: Completion) -> str:
    """Return tokens, tokens per second, the time to the first token, and what else is to know."""
    timings, count = completion.timings, completion.usage.completion_tokens
    rate = timings.decode_tokens_per_s
    parts = [f"{count} token" if count == 1 else f"{count} tokens"]
    if rate:
        parts.append(f"{rate:.1f} tokens/s")
    parts.append(f"first token after {timings.ttft_s:.2f} s")
    metrics = completion.metrics
    if metrics is not None and metrics.draft_proposed:
        parts.append(f"{metrics.draft_accepted} of {metrics.draft_proposed} guesses right")
    if completion.context_full:
        parts.append("the context is full")
    return " · ".join(parts)
