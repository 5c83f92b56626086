"""Hermes 2 Pro, Qwen 2.5 and Qwen3: JSON between `<tool_call>` and `</tool_call>`.

After the cards of NousResearch/Hermes-2-Pro-Mistral-7B and Qwen/Qwen3-8B, and their templates.
"""

from __future__ import annotations

from edgewise_runtime.calls.envelope import call
from edgewise_runtime.calls.format import Format, Spelling
from edgewise_runtime.calls.source import Reading, Source

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def _read(source: Source) -> Reading[None]:
    while (yield from source.content((_OPEN,))):
        yield from source.attempt(_OPEN, _calls(source))


def _calls(source: Source) -> Reading[None]:
    yield from source.spaces()
    yield from call(source)
    # Some write all calls between one pair of marks, and some forget the second mark.
    while not (yield from source.closing(_CLOSE)) and (yield from source.peek()) == "{":
        yield from call(source)


HERMES = Format(
    name="hermes",
    read=_read,
    marks=(_OPEN, _CLOSE),
    triggers=(_OPEN,),
    spelling=Spelling(
        begin=f'{_OPEN}\n{{"name": "',
        named='", "arguments": ',
        end=f"}}\n{_CLOSE}",
        between="\n",
        after="free",
    ),
)
