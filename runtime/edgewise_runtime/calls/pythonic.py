"""Calls as Python writes them: `f(a=1)`, alone, in a list or in lines."""

from __future__ import annotations

from edgewise_runtime.calls.literals import keywords
from edgewise_runtime.calls.source import Reading, Source

_PRINT = "print"


def call_list(source: Source) -> Reading[None]:
    """Read ``[f(a=1), g()]``, from its bracket on."""
    yield from source.expect("[")
    while True:
        yield from source.spaces()
        yield from _call(source)
        yield from source.spaces()
        if (yield from source.expect(",", "]")) == "]":
            return


def call_lines(source: Source) -> Reading[None]:
    """Read calls with white space between them, each perhaps printed; a list as above, too."""
    if (yield from source.peek()) == "[":
        yield from call_list(source)
        return
    while True:
        yield from _call(source)
        yield from source.spaces()
        if (yield from source.peek()) in ("`", ""):
            return


def _call(source: Source) -> Reading[None]:
    name = yield from source.word()
    yield from source.expect("(")
    printed = name == _PRINT
    if printed:
        name = yield from source.word()
        yield from source.expect("(")
    source.begin(name)
    yield from keywords(source)
    source.end()
    if printed:
        yield from source.expect(")")
