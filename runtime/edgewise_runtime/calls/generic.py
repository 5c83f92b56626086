"""Models without marks of their own: an answer that is JSON of a call, or a list of such.

It may stand in a code block of JSON. What is JSON but no call of a known tool is an answer.
"""

from __future__ import annotations

from edgewise_runtime.calls.envelope import call, call_list
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.source import NotACallError, Reading, Source

BLOCK, _FENCE = "```json", "```"


def objects(source: Source) -> Reading[None]:
    """Read calls, one below another, or a list of them."""
    if (yield from source.peek()) == "[":
        yield from call_list(source, known=True)
        return
    yield from call(source, known=True)
    yield from source.spaces()
    while (yield from source.peek()) == "{":
        yield from call(source, known=True)
        yield from source.spaces()


def block(source: Source) -> Reading[None]:
    """Read what is in a code block of JSON, and its end."""
    yield from source.spaces()
    if (yield from source.peek()) not in ("{", "["):
        raise NotACallError
    yield from objects(source)
    yield from source.closing(_FENCE)


def _read(source: Source) -> Reading[None]:
    yield from source.blank()
    if (yield from source.peek()) in ("{", "["):
        yield from source.attempt("", objects(source), bare=True)
    while (yield from source.content((BLOCK,))):
        yield from source.attempt(BLOCK, block(source), bare=True)


GENERIC = Format(
    name="json",
    read=_read,
    marks=(),
    triggers=(),
    spelling=Spelling(begin='{"name": "', named='", "arguments": ', end="}", between="\n"),
)
