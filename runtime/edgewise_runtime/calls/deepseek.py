"""DeepSeek V2.5 to V3.1 and R1: calls between tokens of their own.

After the templates of deepseek-ai/DeepSeek-R1 and DeepSeek-V3.1. The older form names the kind
first and has its arguments in a code block; since V3.1 name and arguments stand bare.
"""

from __future__ import annotations

from edgewise_runtime.calls.envelope import arguments
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.source import Reading, Source

_CALLS, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"
_KIND = "function"
_BLOCK, _FENCE = "```json", "```"
_MARKS = (_CALLS, _CALLS_END, _CALL, _CALL_END, _SEPARATOR)


def _read(source: Source) -> Reading[None]:
    while mark := (yield from source.content((_CALLS, _CALL))):
        yield from source.attempt(mark, _calls(source, mark))


def _calls(source: Source, mark: str) -> Reading[None]:
    if mark == _CALLS:
        yield from source.spaces()
        yield from source.expect(_CALL)
    yield from _call(source)
    while (yield from source.closing(_CALL)):
        yield from _call(source)
    yield from source.closing(_CALLS_END)


def _call(source: Source) -> Reading[None]:
    yield from source.spaces()
    name = yield from source.word()
    yield from source.spaces()
    yield from source.expect(_SEPARATOR)
    yield from source.spaces()
    fenced = name == _KIND and (yield from source.peek()) != "{"
    if fenced:
        name = yield from source.word()
        yield from source.spaces()
        yield from source.expect(_BLOCK)
        yield from source.spaces()
    source.begin(name)
    yield from arguments(source)
    source.end()
    if fenced:
        yield from source.closing(_FENCE)
    yield from source.closing(_CALL_END)


DEEPSEEK = Format(
    name="deepseek",
    read=_read,
    marks=_MARKS,
    triggers=(_CALLS,),
    spelling=Spelling(
        first=_CALLS,
        begin=f"{_CALL}{_KIND}{_SEPARATOR}",
        named=f"\n{_BLOCK}\n",
        end=f"\n{_FENCE}{_CALL_END}",
        between="\n",
        last=_CALLS_END,
    ),
)
DEEPSEEK31 = Format(
    name="deepseek_v31",
    read=_read,
    marks=_MARKS,
    triggers=(_CALLS,),
    spelling=Spelling(first=_CALLS, begin=_CALL, named=_SEPARATOR, end=_CALL_END, last=_CALLS_END),
)
